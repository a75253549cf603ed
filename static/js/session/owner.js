// The owner's commands, and links to share. The control link never appears on a view link's page, because the server
// does not send it.
import { $, blob, boot, copy, h, request, toast, Told } from "../page.js";
import { ask, askToStop } from "../dialog.js";
import { count } from "../format.js";
import { stateOf, used } from "./reduce.js";
import { TryForm } from "./try_form.js";
import { isKernel } from "./words.js";

const control = boot.control ?? null;

/** Sends a command of the owner and returns the reply. Raises Told. */
export async function command(kind, data = {}) {
  return request(`/api/sessions/${boot.session.id}/commands`, {
    body: { kind, data },
    headers: { "X-Control-Token": control.token },
  });
}

/** Sends a command from a button and shows an error beside it. */
async function send(button, kind, data, done) {
  button.disabled = true;
  try {
    await command(kind, data);
    toast(done);
  } catch (e) {
    toast(`${e.message} ${e.fix}`.trim());
  } finally {
    button.disabled = false;
  }
}

export class Owner {
  /** `state()` returns {view, trial}. */
  constructor(state) {
    this.state = state;
    const id = boot.session.id;
    $("share").append(
      h(
        "button",
        {
          type: "button",
          class: "button",
          id: "copy-view",
          onclick: () => copy(this.viewLink(), "View link copied: whoever has it can watch."),
        },
        "Copy view link",
      ),
      control
        ? h(
            "button",
            {
              type: "button",
              class: "button",
              id: "copy-control",
              onclick: () => copy(control.url, "Control link copied: whoever has it can stop this session."),
            },
            "Copy control link",
          )
        : "",
      h("a", { class: "button", id: "fork", href: `/s/${id}/fork` }, "Fork"),
      h("a", { class: "button", id: "compare", href: `/gallery/compare?a=${id}`,
        title: "This session beside another one: limits, best times, programs" }, "Compare"),
      h("a", { class: "button", id: "export", href: `/s/${id}/export`, download: "", hidden: true }, "Export"),
    );
    if (!control) return;
    this.pause = h(
      "button",
      {
        type: "button",
        class: "button",
        id: "pause",
        onclick: () => {
          const paused = this.state().view.paused;
          send(this.pause, paused ? "resume" : "pause", {}, paused ? "Continuing." : "Pausing after this step.");
        },
      },
      "Pause",
    );
    this.stop = h(
      "button",
      { type: "button", class: "button danger", id: "stop", onclick: () => this.confirmStop() },
      "Stop",
    );
    this.more = h(
      "button",
      { type: "button", class: "button", id: "raise", onclick: () => this.raise() },
      "Raise budget",
    );
    this.mine = h(
      "button",
      { type: "button", class: "button", id: "try", onclick: () => this.tryMine() },
      "Try your own",
    );
    $("owner").append(this.pause, this.stop, this.more, this.mine);
    $("owner").hidden = false;
  }

  /** The view link with the current selection: ?trial=7&diff=3. */
  viewLink() {
    return `${boot.view_url}${location.search}`;
  }

  draw(view, trial) {
    const one = view.trials.get(trial);
    const program = Boolean(one) && !isKernel(one); // no session can start from a kernel
    $("fork").href = `/s/${boot.session.id}/fork${program ? `?trial=${trial}` : ""}`;
    $("fork").hidden = !boot.session.spec.source; // a snapshot of the results alone
    $("fork").title = program
      ? `Open the playground with the program of trial ${trial}`
      : "Open the playground with this text";
    const ready = Boolean(one && Object.keys(one.sources).length);
    $("export").hidden = !ready;
    $("export").href = `/s/${boot.session.id}/export${trial ? `?trial=${trial}` : ""}`;
    $("export").title =
      `Trial ${trial} as a zip: program, both sources, a PyTorch package for pip, and a check against the module`;
    if (!control) return;
    const over = Boolean(view.end);
    $("owner").hidden = over;
    $("owner").classList.toggle("over", over && boot.session.state !== "ended"); // on a small page its room stays
    this.pause.textContent = stateOf(view) === "paused" ? "Resume" : "Pause";
  }

  raise() {
    const now = this.state().view.budget?.trials ?? boot.session.spec.trials;
    const input = h("input", { type: "number", min: now + 1, value: now + 12, id: "raise-to", inputmode: "numeric" });
    ask(
      "Raise the budget",
      [h("label", {}, `Trials in all (${now} now)`, input)],
      "Raise",
      async () => {
        const all = Number(input.value);
        if (!Number.isInteger(all) || all <= now)
          throw new Told(`“Trials in all” takes a whole number above ${now}.`, `Write for example ${now + 12}.`);
        return command("budget", { trials: all });
      },
      "The budget is raised.",
    );
    input.select();
  }

  confirmStop() {
    const { view } = this.state();
    const left = (view.budget?.trials ?? boot.session.spec.trials) - used(view);
    const rest = left > 0 ? `${count(left, "trial")} of its budget would not run.` : "";
    askToStop("Stop this session?", rest, () => command("stop"));
  }

  /** A candidate of the owner, starting from the text of the shown trial. */
  async tryMine() {
    const { view, trial } = this.state();
    const one = view.trials.get(trial);
    const text = one ? await blob(one.program).catch(() => "") : "";
    const kind = one && isKernel(one) ? one.language : "program";
    const run = () => $("dialog").querySelector("form").requestSubmit();
    const form = new TryForm(text, kind, one?.cls, view.bounds ?? {}, run);
    ask(
      one ? `Try your own, from trial ${trial}` : "Try your own",
      form.body,
      "Evaluate",
      () => command("try", form.data),
      (reply) =>
        reply.waits === "paused"
          ? "Accepted: it waits until the session resumes."
          : "Accepted: it becomes a trial of yours.",
    );
    form.open();
  }
}
