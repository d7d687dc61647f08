// A part of a page whose code the server sends once, and not with every message.
export default function (part) {
  import(new URL(part.data.module, document.baseURI).href)
    .then((module) => module.default(part))
    .catch((error) => {
      part.parentElement.textContent = `This part of the page cannot be drawn: ${error.message}. Reload the page.`;
    });
}
