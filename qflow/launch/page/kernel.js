// Kernel: the counterpart of a page's own Python (page_kernel.py), with a model for each widget there, as in a
// notebook. Changes on one side are sent to the other in the messages of ipywidgets.

import { StoredModel } from "../../labs/static/stored_model.js";
import { loadPython } from "./worker.js";

// The values that a stored run keeps when a live lab takes it over, such as its instant and whether it plays.
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

  // Take over a stored run, which continues as this model's picture at the same instant.
  async takeOver({ model, asked = [] }) {
    const values = Object.entries({ ...this.values, is_live: true });
    model.set = (name, value) => this.set(name, value);
    model.save_changes = () => this.save_changes();
    model.answer = (content, callbacks) => this.send(content, callbacks);
    model.change(Object.fromEntries(values.filter(([name]) => !FILMS_OWN.includes(name))));
    // The answers that the reader gave in the stored run are sent to this model, too.
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

  // Run cells, and return the models that the last one shows.
  async run(cells, needs) {
    const { shown, error } = await (await this.python)({ cells }, needs);
    if (error) throw new Error(error);
    return shown.map((id) => this.models.get(id));
  }

  // The same method as that of a notebook's widget manager.
  async get_model(id) {
    return this.models.get(id);
  }
}

// Insert the binary values of a message, which are sent beside the others, at their paths.
function withBuffers(state, paths, buffers) {
  paths.forEach((path, index) => {
    const last = path.at(-1);
    const inside = path.slice(0, -1).reduce((value, key) => value[key], state);
    inside[last] = new DataView(buffers[index].buffer, buffers[index].byteOffset, buffers[index].byteLength);
  });
  return state;
}
