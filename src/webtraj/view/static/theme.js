// The theme: light, dark, or the system's.

const THEMES = ["auto", "light", "dark"];
const STORED = "webtraj-theme";

// Applies the theme that was chosen last.
export function restoreTheme() {
  applyTheme(stored());
}

// Switches to the next theme, and returns its name.
export function nextTheme() {
  const theme = THEMES[(THEMES.indexOf(stored()) + 1) % THEMES.length];
  try {
    localStorage.setItem(STORED, theme);
  } catch {
    // Without storage, it lasts until the page is left.
  }
  applyTheme(theme);
  return theme;
}

function stored() {
  const current = document.documentElement.dataset.theme;
  if (THEMES.includes(current)) return current;
  try {
    const theme = localStorage.getItem(STORED);
    return THEMES.includes(theme) ? theme : "auto";
  } catch {
    return "auto";
  }
}

function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
}
