// Shows a new question and new votes without a reload, so that the focus stays.
(() => {
  const INTERVAL = 1000; // milliseconds
  const update = async () => {
    try {
      const response = await fetch(location.href);
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const shown = document.querySelector("[data-state]");
      const current = page.querySelector("[data-state]");
      if (current && current.dataset.state !== shown.dataset.state) {
        const { id } = document.activeElement;
        shown.replaceWith(current);
        if (id) document.getElementById(id)?.focus();
      }
    } catch {
      // The service is away. The next look may find it.
    }
    setTimeout(update, INTERVAL);
  };
  setTimeout(update, INTERVAL);
})();
