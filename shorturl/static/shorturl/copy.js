// Shows the copy buttons, which do nothing without JavaScript, and makes them work.
"use strict";

for (const button of document.querySelectorAll("[data-copy]")) {
  const field = document.getElementById(button.dataset.copy);
  const note = document.querySelector("[data-copied]");

  button.hidden = false;
  button.addEventListener("click", async () => {
    field.select();
    try {
      await navigator.clipboard.writeText(field.value);
      note.textContent = "Copied";
    } catch {
      // No clipboard without HTTPS, or not allowed. The address is selected by now.
      note.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C to copy";
    }
  });
}
