// Shows times in the reader's time zone, and lets an expiry be typed in it. The server has only UTC.
"use strict";

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const ZONE_NAME = ZONE.replaceAll("_", " ");
const DAY = { day: "numeric", month: "short", year: "numeric" };
const MINUTE = { ...DAY, hour: "2-digit", minute: "2-digit" };
const asField = (time) => time.toISOString().slice(0, 16);

for (const time of document.querySelectorAll("time")) {
  const hasClock = time.textContent.endsWith("UTC");
  const format = new Intl.DateTimeFormat("en-GB", hasClock ? MINUTE : DAY);
  time.textContent = format.format(new Date(time.dateTime)) + (hasClock ? ` ${ZONE_NAME}` : "");
}

// Without this event the field stays in UTC.
if ("FormDataEvent" in window) {
  for (const field of document.querySelectorAll("input[type=datetime-local]")) {
    const help = document.getElementById(`${field.id}_helptext`);
    help.textContent = help.textContent.replace("UTC", ZONE_NAME);
    if (field.value) {
      const time = new Date(`${field.value}Z`);
      field.value = asField(new Date(time - time.getTimezoneOffset() * 60_000));
    }
    field.form.addEventListener("formdata", ({ formData }) => {
      if (field.value) formData.set(field.name, asField(new Date(field.value)));
    });
  }
}
