// Kernel: the other half of a page's own Python (page_kernel.py): a model for each widget there, as a notebook has
// them. What changes on one side is told the other in the messages that ipywidgets uses.

import { StoredModel } from "../../labs/static/stored_model.js";
import { loadPython } from "./worker.js";

// What a film goes on with when a live lab takes it over: its place, and that it plays.
const FILMS_OWN = ["plays", "place", "cursor", "lit", "over", "asking"];
const REFERENCE = "IPY_MODEL_";

class WidgetModel extends StoredModel {
  constructor(kernel, comm, values) {
    super({ ...values, is_live: true });
    Object.assign(this, { kernel, comm, widget_manager: kernel, unsaved: {}, films: [] });
  }

  // The model that a value refers to.
  part(name) {
    return this.kernel.models.get(String(this.get(name)).slice(REFERENCE.length));
  }

  parts(name) {
    return this.get(name).map((id) => this.kernel.models.get(id.slice(REFERENCE.length)));
  }

  set(name, value) {
    if (this.values[name] === value) return;
    this.unsaved[name] = value;
    this.change({ [name]: value });
  }

  save_changes() {
    const state = this.unsaved;
    this.unsaved = {};
    this.kernel.tell(this.comm, { method: "update", state, buffer_paths: [] });
  }

  async send(content, callbacks) {
    await this.kernel.tell(this.comm, { method: "custom", content });
    callbacks?.iopub?.status?.({ content: { execution_state: "idle" } });
  }

  hear(content, buffers) {
    for (const hear of this.heard.get("msg:custom") ?? []) hear(content, buffers);
  }

  change(values) {
    super.change(values);
    for (const film of this.films) film.change(values);
  }

  // A film that plays goes on as this model's: the same picture, the same instant.
  async takeOver({ model, asked = [] }) {
    const values = Object.entries({ ...this.values, is_live: true });
    model.set = (name, value) => this.set(name, value);
    model.save_changes = () => this.save_changes();
    model.answer = (content, callbacks) => this.send(content, callbacks);
    model.change(Object.fromEntries(values.filter(([name]) => !FILMS_OWN.includes(name))));
    // What the reader has answered in the film is answered here, too.
    for (const content of asked) await this.send(content);
    Object.assign(model.values, { asking: this.get("asking") });
    this.films.push(model);
  }
}

export class PageKernel {
  constructor(script, report) {
    this.models = new Map();
    const hear = (message, buffers) => this.hear(message, buffers);
    this.python = loadPython(script, "page_kernel", { report, hear });
  }

  hear({ comm, type, data }, buffers) {
    const state = withBuffers(data.state ?? {}, data.buffer_paths ?? [], buffers);
    if (type === "comm_open") this.models.set(comm, new WidgetModel(this, comm, state));
    else if (data.method === "update") this.models.get(comm)?.change(state);
    else if (data.method === "custom") this.models.get(comm)?.hear(data.content, buffers);
  }

  async tell(comm, data) {
    return (await this.python)({ comm, data });
  }

  // Run cells; what comes back are the models that the last one shows.
  async run(cells, needs) {
    const { shown, error } = await (await this.python)({ cells }, needs);
    if (error) throw new Error(error);
    return shown.map((id) => this.models.get(id));
  }

  // As a widget manager of a notebook does.
  async get_model(id) {
    return this.models.get(id);
  }
}

// Binary values travel beside the others; their paths say where they belong.
function withBuffers(state, paths, buffers) {
  paths.forEach((path, index) => {
    const last = path.at(-1);
    const inside = path.slice(0, -1).reduce((value, key) => value[key], state);
    inside[last] = new DataView(buffers[index].buffer, buffers[index].byteOffset, buffers[index].byteLength);
  });
  return state;
}
