// A person's label of an episode: success, failure, or a note.

import { putLabel } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { notify } from "./notices.js";

const MARKS = { success: "M3 8.5 6.5 12 13 4.5", failure: "M4 4 12 12 M12 4 4 12", note: "M3 12.5 4 9.5 11 2.5 13.5 5 6.5 12z" };
const WORDS = { success: "Success", failure: "Failure", note: "Note" };
const LONGEST_NOTE = 10_000;

// Returns {element, keys} for labelling an episode. A label is shown as set once it is stored.
export function labelButtons(dataset, episode) {
  let given = { label: episode.label ?? "", note: episode.note ?? "" };
  const buttons = Object.keys(WORDS).map((name) =>
    h("button", { type: "button", class: "label", data: { label: name }, on: { click: () => press(name) } }, icon(MARKS[name]), WORDS[name]),
  );
  const text = h("textarea", { rows: 4, maxlength: LONGEST_NOTE, aria: { label: "Note" }, placeholder: "Note on this episode" });
  const cancel = h("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel");
  const keep = h("button", { type: "button", class: "accent", on: { click: () => keepNote() } }, "Save");
  const dialog = h("dialog", { class: "note-dialog", aria: { label: "Note on this episode" } }, h("h2", {}, "Note"), text, h("div", { class: "actions" }, cancel, keep));
  const noted = h("div", { class: "noted said", dir: "auto", hidden: true, tabindex: 0, role: "group", aria: { label: "Note" } });
  const element = h("div", { class: "labels", role: "group", aria: { label: "Your label" } }, buttons, dialog);

  const show = () => {
    for (const button of buttons) {
      const name = button.dataset.label;
      button.setAttribute("aria-pressed", String(name === "note" ? given.note !== "" : given.label === name));
    }
    noted.hidden = given.note === "";
    fill(noted, given.note.length > 600 ? `${given.note.slice(0, 600)}…` : given.note);
  };
  const put = async (wanted) => {
    buttons.forEach((button) => (button.disabled = true));
    try {
      const { label, note } = await putLabel(dataset, episode.id, wanted);
      given = { label, note };
      notify(label || note ? "Label saved." : "Label removed.");
      return true;
    } catch (error) {
      notify(`Could not save the label: ${error.message}`, { problem: true });
      return false;
    } finally {
      buttons.forEach((button) => (button.disabled = false));
      show();
    }
  };
  const press = (name) => {
    // The stored note is kept: another tab may have changed it.
    if (name !== "note") return put({ label: given.label === name ? "" : name });
    text.value = given.note;
    dialog.showModal();
    text.focus();
    return null;
  };
  const keepNote = async () => {
    const note = text.value.trim();
    const verdict = given.label === "note" ? "" : given.label;
    if (await put({ label: verdict || (note ? "note" : ""), note })) dialog.close();
  };
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) keepNote();
  });
  show();
  const keys = Object.entries(WORDS).map(([name, words]) => {
    const key = name[0];
    return { keys: [key], shown: key, does: `Label: ${words.toLowerCase()}`, run: () => press(name) };
  });
  return { element, noted, keys };
}
