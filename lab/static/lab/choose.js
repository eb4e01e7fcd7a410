// Lets the keys 1, 2, … choose who goes next; without this, there are links.
(() => {
  const help = document.querySelector(".keys");
  if (help) help.hidden = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    const name = event.key === "ArrowLeft" ? "back" : event.key;
    const link = [...document.querySelectorAll("[data-process]")].find((each) => each.dataset.process === name);
    if (event.key === "ArrowLeft" && event.target.closest(".scroll")) return; // it scrolls
    link?.click();
  });
})();
