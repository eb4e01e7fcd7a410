// Shows schedules step by step; without this script, all steps are shown. A page has one schedule, or
// each is in an element with data-schedule; the keys then control the schedule that was last touched.
(() => {
  const moves = {
    first: () => 1,
    back: (at, steps) => (at === 0 ? steps - 1 : Math.max(1, at - 1)),
    forward: (at) => (at === 0 ? 1 : at + 1),
    last: (at, steps) => steps,
    all: () => 0,
  };
  const keys = { ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last", Escape: "all" };

  const stepper = (root) => {
    const pictures = [...root.querySelectorAll(".picture")];
    const rows = [...root.querySelectorAll(".lanes tbody tr")];
    const controls = root.querySelector(".stepping");
    const verdict = root.querySelector(".verdict-box");
    const sent = root.querySelector(".sent-now");
    const said = controls?.querySelector("[role=status]");
    if (!controls || !rows.length || root.querySelector(".hidden-step")) return null;
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
      root.classList.toggle("on-the-way", onTheWay);
      root.querySelectorAll(".line.now").forEach((line) => line.classList.remove("now"));
      const row = rows[at - 1];
      const line = row && document.getElementById(`L${row.dataset.line}`);
      if (line) {
        line.classList.add("now");
        line.scrollIntoView({ block: "nearest", inline: "nearest" });
      }
      sent.hidden = !row;
      if (row) {
        sent.querySelector(".told").textContent = row.querySelector(".told").textContent;
        sent.querySelector("code").textContent = row.querySelector("code").textContent;
        sent.lastElementChild.textContent = row.querySelector(".returned")?.textContent ?? "";
      }
      said.textContent = row ? `Step ${at} of ${rows.length}: ${[...sent.children].map((each) => each.textContent).join(" ")}` : "All steps";
      if (root === document.body) {
        history.replaceState(null, "", row ? `#step-${at}` : location.pathname + location.search);
      }
    };

    const move = (name) => show(moves[name](at, rows.length));
    controls.addEventListener("click", (event) => {
      if (event.target.dataset.go) move(event.target.dataset.go);
    });
    for (const picture of pictures) {
      picture.addEventListener("click", (event) => {
        const step = Number(event.target.closest("[data-step]")?.dataset.step);
        if (step) show(step);
      });
    }
    controls.hidden = false;
    return { root, show, move };
  };

  const roots = [...document.querySelectorAll("[data-schedule]")];
  const steppers = (roots.length ? roots : [document.body]).map(stepper).filter(Boolean);
  let touched = null;
  for (const each of steppers) {
    for (const kind of ["click", "focusin"]) each.root.addEventListener(kind, () => (touched = each));
  }
  const isSeen = ({ root }) => {
    const { top, bottom, height } = root.getBoundingClientRect();
    return height > 0 && bottom > 0 && top < window.innerHeight;
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (typing || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    const current = touched && isSeen(touched) ? touched : steppers.find(isSeen);
    if (!keys[event.key] || !current) return;
    // In a frame with wider content, the arrow keys scroll.
    const frame = event.target.closest(".scroll");
    if (frame && frame.scrollWidth > frame.clientWidth) return;
    event.preventDefault();
    current.move(keys[event.key]);
  });
  const step = /^#step-(\d+)$/.exec(location.hash);
  if (step && !roots.length) steppers[0]?.show(Number(step[1]));
})();
