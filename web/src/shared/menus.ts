// Menus: one is open at a time, inside the window, and Escape or a press elsewhere closes it.

const OPEN = "details.menu[open]";

export function watchMenus(): void {
  const opened = () => [...document.querySelectorAll<HTMLDetailsElement>(OPEN)];
  document.addEventListener("pointerdown", (event) => {
    for (const menu of opened()) if (!menu.contains(event.target as Node)) menu.open = false;
  }, true);
  document.addEventListener("keydown", (event) => {
    const menus = opened();
    if (event.key !== "Escape" || !menus.length) return;
    for (const menu of menus) menu.open = false;
    menus[0]!.querySelector("summary")?.focus();
    event.stopImmediatePropagation(); // it closed the menu, and clears nothing else
  }, true);
  // 'toggle' does not bubble, but it is captured on its way down.
  document.addEventListener("toggle", (event) => {
    const menu = event.target;
    if (!(menu instanceof HTMLDetailsElement) || !menu.open || !menu.matches(OPEN)) return;
    for (const other of opened()) if (other !== menu) other.open = false;
    const list = menu.querySelector<HTMLElement>(":scope > div");
    if (!list) return;
    list.style.left = "0px";
    const beyond = list.getBoundingClientRect().right - (document.documentElement.clientWidth - 8);
    if (beyond > 0) list.style.left = `${-Math.min(beyond, menu.getBoundingClientRect().left - 8)}px`;
  }, true);
}
