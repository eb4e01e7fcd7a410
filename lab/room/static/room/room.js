// Shows a new question and new votes without a reload, so that the focus stays.
(() => {
  const INTERVAL = 1000; // milliseconds
  const readNews = async () => {
    try {
      const response = await fetch(location.href);
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const shown = document.querySelector("[data-news]");
      const news = page.querySelector("[data-news]");
      if (news && news.dataset.news !== shown.dataset.news) {
        const { id } = document.activeElement;
        shown.replaceWith(news);
        if (id) document.getElementById(id)?.focus();
      }
    } catch {
      // The service is away. The next look may find it.
    }
    setTimeout(readNews, INTERVAL);
  };
  setTimeout(readNews, INTERVAL);
})();
