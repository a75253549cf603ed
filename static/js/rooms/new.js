// The form that opens a room, and goes on to its wall.
import { $, answer, arrived, boot, h, request } from "../page.js";
import { tr } from "../texts.js";
import { inLanguage, reasonOf } from "./texts.js";

const texts = []; // own lessons: {name, text}

$("lonely").hidden = !boot.lonely;
$("seats").value = boot.seats;
$("seats").max = boot.most_seats;
$("trials").value = boot.trials;
$("lessons").replaceChildren(
  ...boot.lessons.map((lesson, place) =>
    h("label", { class: "check" },
      h("input", { type: "checkbox", name: "lesson", value: lesson.slug, checked: place === 0 }),
      h("span", {}, h("strong", {}, lesson.title), ` ${lesson.minutes} ${tr("min")}`,
        h("small", { class: "faint" }, lesson.summary)))),
);

$("own").addEventListener("change", async () => {
  for (const file of $("own").files) texts.push({ name: file.name, text: await file.text() });
  $("own").value = "";
  drawOwn();
});

function drawOwn() {
  const remove = (one) => () => {
    texts.splice(texts.indexOf(one), 1);
    drawOwn();
  };
  $("own-list").replaceChildren(
    ...texts.map((one) =>
      h("li", {}, `${one.name} `,
        h("button", { type: "button", class: "button small", onclick: remove(one) }, tr("Remove")))),
  );
}

async function open() {
  const deadline = $("deadline").value;
  const room = await request("/api/rooms", {
    body: {
      title: $("title").value,
      lessons: [...document.querySelectorAll("[name=lesson]:checked")].map((box) => box.value),
      own: texts.map((one) => one.text),
      paced: document.querySelector("[name=pace]:checked").value === "paced",
      test: $("test").checked,
      seats: Number($("seats").value),
      trials: Number($("trials").value),
      deadline: deadline ? new Date(deadline).getTime() / 1000 : null,
    },
  });
  location.assign(inLanguage(new URL(room.teacher_url, location.href).pathname));
}

answer($("new-room"), async () => {
  $("error").hidden = true;
  try {
    await open();
  } catch (problem) {
    $("error").textContent = reasonOf(problem);
    $("error").hidden = false;
  }
});
arrived();
