// The flame graph's own page: reads its data and keeps what is chosen in the address.

import "./style.css";
import { copy } from "../shared/dom";
import { watchMenus } from "../shared/menus";
import { watchTheme } from "../shared/theme";
import { load } from "./data";
import { controls } from "./controls";
import { makeParts } from "./parts";
import { type Around, remembered } from "./state";
import { View } from "./view";

async function start(): Promise<void> {
  const main = document.getElementById("main-start")!;
  try {
    const page = await load(document.getElementById("data")!);
    document.title = `${page.title} · sightline`;
    document.getElementById("title")!.textContent = page.title;
    const host = makeParts(page.notes);
    main.replaceChildren(host);
    const around: Around = {
      part: <T extends HTMLElement>(id: string) => host.querySelector(`#${id}`) as T,
      remember: (choice) => history.replaceState(null, "", `#${choice}`),
      listens: () => true,
    };
    const state = remembered(page, location.hash.slice(1));
    const view = new View(page, state, around);
    controls(page, state, view, around);
    watchMenus();
    watchTheme(document.getElementById("theme")!, () => view.draw());
    document.getElementById("copy-link")!.onclick = () => void copy(location.href, "Link");
    document.body.dataset["ready"] = "yes";
  } catch (error) {
    main.textContent = `The page cannot be shown: ${String(error)}`;
    document.body.dataset["ready"] = "failed";
  }
}

void start();
