// Shows the copy buttons, which do nothing without JavaScript, and makes them work.
"use strict";

const note = document.querySelector("[data-copied]");

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.value);
      note.textContent = `Copied ${button.value}`;
    } catch {
      // No clipboard without HTTPS, or not allowed: the text is selected in a field instead.
      const field = button.parentElement.querySelector("input") ?? document.createElement("input");
      field.value = button.value;
      field.readOnly = true;
      if (!field.labels.length) field.setAttribute("aria-label", "Short URL");
      button.before(field);
      field.select();
      note.textContent = document.execCommand("copy")
        ? `Copied ${button.value}`
        : "Press Ctrl+C to copy";
    }
  });
}
