// Shows a schedule step by step; without this, all steps are there at once.
(() => {
  const pictures = [...document.querySelectorAll(".picture")];
  const rows = [...document.querySelectorAll(".lanes tr[id]")];
  const controls = document.querySelector(".stepping");
  const verdict = document.querySelector("#verdict");
  const sent = document.querySelector(".sent-now");
  const said = controls?.querySelector("[role=status]");
  if (!controls || !rows.length || document.querySelector(".hidden-step")) return;
  let at = 0; // the step that is shown last; 0 shows all of them

  const draw = (picture) => {
    const ends = picture.dataset.ends.trim().split(/\s+/);
    const onTheWay = at > 0 && at < rows.length;
    picture.querySelector("clipPath rect").setAttribute("height", ends[onTheWay ? at : ends.length - 1]);
    for (const shape of picture.querySelectorAll("[data-step]")) {
      const step = Number(shape.dataset.step);
      shape.classList.toggle("now", step === at);
      shape.classList.toggle("later", at > 0 && step > at);
    }
  };

  const show = (step) => {
    at = Math.max(0, Math.min(step, rows.length));
    pictures.forEach(draw);
    rows.forEach((row, index) => {
      row.hidden = at > 0 && index >= at;
      row.classList.toggle("now", index === at - 1);
      if (index === at - 1) row.setAttribute("aria-current", "step");
      else row.removeAttribute("aria-current");
    });
    const onTheWay = at > 0 && at < rows.length;
    verdict.classList.toggle("not-yet", onTheWay);
    document.body.classList.toggle("on-the-way", onTheWay);
    document.querySelectorAll(".line.now").forEach((line) => line.classList.remove("now"));
    const row = rows[at - 1];
    const line = row && document.getElementById(`L${row.dataset.line}`);
    if (line) {
      line.classList.add("now");
      line.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    sent.hidden = !row;
    if (row) {
      sent.firstElementChild.textContent = row.querySelector("code").textContent;
      sent.lastElementChild.textContent = row.querySelector(".returned")?.textContent ?? "";
    }
    said.textContent = row ? `Step ${at} of ${rows.length}: ${sent.textContent}` : "All steps";
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
  for (const picture of pictures) {
    picture.addEventListener("click", (event) => {
      const step = Number(event.target.closest("[data-step]")?.dataset.step);
      if (step) show(step);
    });
  }
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
