// Light or dark: as the system has it, until a person says otherwise.

export function watchTheme(button: HTMLElement, changed: () => void): void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const set = (on: boolean) => {
    document.documentElement.dataset["theme"] = on ? "dark" : "light";
    button.textContent = on ? "Light" : "Dark";
    button.setAttribute("aria-label", on ? "Use the light theme" : "Use the dark theme");
    changed();
  };
  set(system.matches);
  button.onclick = () => set(!isDark());
  system.addEventListener("change", () => set(system.matches));
}

export function isDark(): boolean { return document.documentElement.dataset["theme"] === "dark"; }
