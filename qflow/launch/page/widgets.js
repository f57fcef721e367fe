// Widgets: draws in a page what ipywidgets and anywidget draw in a notebook, for the few kinds of widgets that labs
// use.

import { html, listen, set, write } from "../../labs/static/svg.js";

// Draw a model in an element. A stored run of the same lab becomes the view of its scene, so that nothing moves.
export function drawWidget(model, parent, films) {
  const [film] = isScene(model) ? films.splice(0, 1) : [];
  if (film) {
    move(film.scene, parent);
    model.takeOver(film);
    return film.scene;
  }
  const kind = model.get("_model_name");
  const root = html(KINDS[kind].tag ?? "div", {}, parent);
  const dress = () => {
    root.className = [...KINDS[kind].looks, ...(model.get("_dom_classes") ?? [])].join(" ");
  };
  dress();
  listen(model, { _dom_classes: dress });
  const layout = model.part("layout");
  const place = () =>
    Object.assign(root.style, { display: layout.get("display") ?? "", width: layout.get("width") ?? "" });
  if (layout) {
    place();
    listen(layout, { display: place, width: place });
  }
  KINDS[kind].draw(model, root, films);
  return root;
}

const isScene = (model) => model.get("pictures") !== undefined && model.get("_esm") !== undefined;

// Move an element; if the browser supports it, the element keeps its focus and its pointer.
function move(element, parent) {
  if (parent.moveBefore && parent.isConnected) parent.moveBefore(element, null);
  else parent.append(element);
}

const box = (...looks) => ({
  looks: ["widget-box", ...looks],
  draw(model, root, films) {
    const drawn = new Map();
    const draw = () => {
      const parts = model.parts("children");
      for (const part of parts) if (!drawn.has(part)) drawn.set(part, drawWidget(part, root, films));
      for (const [part, element] of drawn) if (!parts.includes(part)) element.remove();
      // Elements that come back later are put at their place in the list.
      if (parts.some((part, at) => root.children[at] !== drawn.get(part)))
        for (const part of parts) move(drawn.get(part), root);
    };
    draw();
    listen(model, { children: draw });
  },
});

function tell(model, value) {
  model.set("value", value);
  model.save_changes();
}

// A labelled field; `read` and `write` convert between the field and the value.
const field = (tag, attributes, ...looks) => ({
  tag: "label",
  looks,
  draw(model, root) {
    html("span", { class: "widget-label" }, root, model.get("description"));
    const input = html(tag, attributes, root);
    const draw = () => {
      set(input, { placeholder: model.get("placeholder") ?? "", title: model.get("tooltip") ?? "" });
      input.disabled = model.get("disabled");
      if (model.get("_options_labels"))
        input.replaceChildren(...model.get("_options_labels").map((label) => html("option", {}, null, label)));
      if (input.tagName === "SELECT") input.selectedIndex = model.get("index") ?? -1;
      else if (input.value !== model.get("value")) input.value = model.get("value");
    };
    input.addEventListener(model.get("continuous_update") === false ? "change" : "input", () => {
      if (input.tagName !== "SELECT") return tell(model, input.value);
      model.set("index", input.selectedIndex);
      model.save_changes();
    });
    draw();
    listen(model, { value: draw, index: draw, disabled: draw, _options_labels: draw });
  },
});

const KINDS = {
  VBoxModel: box("widget-vbox"),
  HBoxModel: box("widget-hbox"),
  BoxModel: box("widget-hbox"),
  TextModel: field("input", { type: "text" }, "widget-text"),
  TextareaModel: field("textarea", { spellcheck: "false" }, "widget-text"),
  DropdownModel: field("select", {}, "widget-dropdown"),
  HTMLModel: {
    looks: ["widget-html"],
    draw(model, root) {
      const inside = html("div", { class: "widget-html-content" }, root);
      const draw = () => {
        inside.innerHTML = model.get("value");
      };
      draw();
      listen(model, { value: draw });
    },
  },
  ButtonModel: {
    tag: "button",
    looks: ["widget-button"],
    draw(model, root) {
      set(root, { type: "button", title: model.get("tooltip") ?? "" });
      root.addEventListener("click", () => model.send({ event: "click" }));
      const draw = () => {
        write(root, model.get("description"));
        root.disabled = model.get("disabled");
      };
      draw();
      listen(model, { description: draw, disabled: draw });
    },
  },
  IntSliderModel: {
    tag: "label",
    looks: ["widget-slider"],
    draw(model, root) {
      set(root, { title: model.get("tooltip") ?? "" });
      html("span", { class: "widget-label" }, root, model.get("description"));
      const rail = html("input", { type: "range", class: "noUi-target" }, root);
      const said = html("output", {}, root);
      // A lab reads the value of a slider that is held in the same way as in a notebook.
      rail.noUiSlider = { get: () => rail.value };
      const draw = () => {
        set(rail, { min: model.get("min"), max: model.get("max"), step: model.get("step") });
        rail.value = model.get("value");
        write(said, rail.value);
      };
      rail.addEventListener("input", () => write(said, rail.value));
      rail.addEventListener("change", () => tell(model, Number(rail.value)));
      draw();
      listen(model, { value: draw, min: draw, max: draw });
    },
  },
  AnyModel: {
    looks: ["jupyter-widgets"],
    async draw(model, root) {
      addStyle(model.get("_css"));
      const { default: widget } = await moduleOf(model.get("_esm"));
      widget.render({ model, el: root });
    },
  },
};

// The modules and style sheets of widgets, each of which is loaded once.
const modules = new Map();

function moduleOf(text) {
  if (!modules.has(text)) modules.set(text, import(URL.createObjectURL(new Blob([text], { type: "text/javascript" }))));
  return modules.get(text);
}

function addStyle(text) {
  if (!text || modules.has(text)) return;
  modules.set(text, html("style", {}, document.head, text));
}
