// Shows the copy buttons, which do nothing without JavaScript, and makes them work.
"use strict";

const note = document.querySelector("[data-copied]");

function addField(button) {
  const field = document.createElement("input");
  field.value = button.value;
  field.readOnly = true;
  field.setAttribute("aria-label", "Short URL");
  button.before(field);
  return field;
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.value);
      note.textContent = `Copied ${button.value}`;
    } catch {
      // No clipboard without HTTPS, or not allowed: the text is selected in a field instead.
      (button.parentElement.querySelector("input[readonly]") ?? addField(button)).select();
      note.textContent = document.execCommand("copy")
        ? `Copied ${button.value}`
        : "Press Ctrl+C to copy";
    }
  });
}
