// A page that was opened from disk may not start workers, so the search works in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      script.src = url;
      this.ready = new Promise((done) => script.addEventListener("load", done));
      frame.contentDocument.head.append(script);
    }
    postMessage(data) {
      const event = new MessageEvent("message", { data });
      this.ready.then(() => this.inside.dispatchEvent(event));
    }
  };
}
