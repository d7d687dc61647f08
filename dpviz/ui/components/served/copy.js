// Copies a text to the clipboard; where the browser does not allow that, shows it selected, ready to be copied.
async function copied(text, root) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = root.querySelector("textarea");
    field.value = text;
    field.hidden = false;
    field.focus();
    field.select();
    return document.execCommand("copy");
  }
}

export default function ({ data, parentElement }) {
  if (!data) return;
  const button = parentElement.querySelector("button");
  const said = parentElement.querySelector(".said");
  button.textContent = data.label;
  said.textContent = "";
  button.onclick = async () => {
    said.textContent = "";
    said.textContent = (await copied(data.text, parentElement)) ? "Copied" : "Press Ctrl+C to copy";
  };
}
