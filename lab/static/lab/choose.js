// Lets the keys 1, 2, a, … choose the process that goes next, as the links do.
(() => {
  const help = document.querySelector(".keys");
  if (help) help.hidden = false;
  document.querySelector(".is-at")?.scrollIntoView({ block: "nearest" });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    const name = event.key === "ArrowLeft" ? "back" : event.key;
    const link = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === name);
    if (event.key === "ArrowLeft" && event.target.closest(".scroll")) return; // it scrolls
    link?.click();
  });
})();
