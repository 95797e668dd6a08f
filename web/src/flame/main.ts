// The flame graph's own page: reads its data and keeps what is chosen in the address.

import "./style.css";
import { load } from "./data";
import { controls } from "./controls";
import { type Around, remembered } from "./state";
import { View } from "./view";

const around: Around = {
  part: <T extends HTMLElement>(id: string) => document.getElementById(id) as T,
  remember: (choice) => history.replaceState(null, "", `#${choice}`),
  listens: () => true,
  dark: (on) => { document.documentElement.dataset["theme"] = on ? "dark" : "light"; },
};

async function start(): Promise<void> {
  const part = (id: string) => around.part(id);
  try {
    const page = await load(part("data"));
    document.title = `${page.title} · sightline`;
    part("title").textContent = page.title;
    part("notes").textContent = page.notes.join(" ");
    const state = remembered(page, location.hash.slice(1));
    const view = new View(page, state, around);
    controls(page, state, view, around);
    view.draw();
    document.body.dataset["ready"] = "yes";
  } catch (error) {
    part("details").textContent = `The page cannot be shown: ${String(error)}`;
    document.body.dataset["ready"] = "failed";
  }
}

void start();
