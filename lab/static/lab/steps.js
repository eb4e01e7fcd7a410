// Shows a schedule step by step; without this, all steps are there at once.
(() => {
  const rows = [...document.querySelectorAll(".lanes tr[id]")];
  const controls = document.querySelector(".stepping");
  const verdict = document.querySelector("#verdict");
  const said = controls?.querySelector("[role=status]");
  if (!controls || !rows.length || document.querySelector(".hidden-step")) return;
  let at = 0; // the step that is shown last; 0 shows all of them

  const show = (step) => {
    at = Math.max(0, Math.min(step, rows.length));
    rows.forEach((row, index) => {
      row.hidden = at > 0 && index >= at;
      row.classList.toggle("now", index === at - 1);
      if (index === at - 1) row.setAttribute("aria-current", "step");
      else row.removeAttribute("aria-current");
    });
    const onTheWay = at > 0 && at < rows.length;
    verdict.hidden = onTheWay;
    document.querySelector(".lanes").classList.toggle("on-the-way", onTheWay);
    document.querySelectorAll(".line.now").forEach((line) => line.classList.remove("now"));
    const row = rows[at - 1];
    const line = row && document.getElementById(`L${row.dataset.line}`);
    if (line) {
      line.classList.add("now");
      line.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    if (row) row.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (at === rows.length) verdict.scrollIntoView({ block: "nearest" });
    said.textContent = row ? `Step ${at} of ${rows.length}` : "All steps";
    history.replaceState(null, "", row ? `#step-${at}` : location.pathname + location.search);
  };

  const moves = {
    first: () => show(1),
    back: () => show(at === 0 ? rows.length - 1 : Math.max(1, at - 1)),
    forward: () => show(at === 0 ? 1 : at + 1),
    last: () => show(rows.length),
    all: () => show(0),
  };
  const keys = { ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last", Escape: "all" };
  controls.addEventListener("click", (event) => moves[event.target.dataset.go]?.());
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (typing || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    if (!keys[event.key]) return;
    // What is wider than its frame has to be scrolled with the arrow keys.
    const frame = event.target.closest(".scroll");
    if (frame && frame.scrollWidth > frame.clientWidth) return;
    event.preventDefault();
    moves[keys[event.key]]();
  });
  controls.hidden = false;
  const step = /^#step-(\d+)$/.exec(location.hash);
  if (step) show(Number(step[1]));
})();
