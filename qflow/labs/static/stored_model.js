// Stored model: replaces the model of a widget where there is no kernel.

// A model with the interface of a widget's model; the messages of handles and buttons are passed to `answer`.
export class StoredModel {
  constructor(values, answer = () => {}) {
    this.values = { run: 1, refusal: "", progress: 0, is_live: false, plays: false, place: {}, ...values };
    this.heard = new Map();
    this.answer = answer;
  }

  get(name) {
    return this.values[name];
  }

  set() {}

  save_changes() {}

  send(question, callbacks) {
    this.answer(question, callbacks);
  }

  on(event, hear) {
    this.heard.set(event, [...(this.heard.get(event) ?? []), hear]);
  }

  off(event, hear) {
    this.heard.set(
      event,
      (this.heard.get(event) ?? []).filter((other) => other !== hear),
    );
  }

  change(values) {
    Object.assign(this.values, values);
    for (const name of Object.keys(values)) for (const hear of this.heard.get(`change:${name}`) ?? []) hear();
  }
}
