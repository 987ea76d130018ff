// Routes of the viewer, in the URL's fragment:
//
//   #/?dataset=..&q=..&sort=..                      the list
//   #/episode/DATASET/ID/step/3?tab=model           an episode
//   #/compare/DATASET/ID/DATASET/ID/step/3          two episodes
//   #/iterations?q=..&order=..                      success by iteration
//   #/run?dataset=..&run=..                         a rollout, while it runs
//
// Anything else is the list.

// Returns the route of a URL's fragment. A repeated parameter is an array.
export function parseRoute(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?", 2);
  const given = new URLSearchParams(query);
  const valuesOf = (name) => (given.getAll(name).length > 1 ? given.getAll(name) : given.get(name));
  const params = Object.fromEntries([...given.keys()].map((name) => [name, valuesOf(name)]));
  const parts = path.split("/").filter(Boolean).map(decoded);
  if (parts[0] === "episode" && parts.length >= 3) {
    return { view: "episode", dataset: parts[1], id: parts[2], step: stepOf(parts.slice(3)), params };
  }
  if (parts[0] === "compare" && parts.length >= 5) {
    const left = { dataset: parts[1], id: parts[2] };
    const right = { dataset: parts[3], id: parts[4] };
    return { view: "compare", left, right, step: stepOf(parts.slice(5)), params };
  }
  if (["iterations", "run"].includes(parts[0]) && parts.length === 1) return { view: parts[0], params };
  return { view: "list", params };
}

// Returns the fragment of a route; `parseRoute` of it is the route.
export function formatRoute(route) {
  const parts = [];
  if (route.view === "episode") parts.push("episode", route.dataset, route.id);
  if (route.view === "compare") {
    parts.push("compare", route.left.dataset, route.left.id, route.right.dataset, route.right.id);
  }
  if (["iterations", "run"].includes(route.view)) parts.push(route.view);
  if (Number.isInteger(route.step)) parts.push("step", route.step);
  const query = new URLSearchParams(pairsOf(route.params ?? {})).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}

// Returns the parameters that have a value, as pairs of name and value.
export function pairsOf(params) {
  const pairs = Object.entries(params).flatMap(([name, values]) => [values].flat().map((value) => [name, value]));
  return pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined);
}

// Navigates to a route. With `replace`, for another view of the same thing, it replaces the history
// entry, so that Back leaves the episode instead of going through its steps.
export function go(route, { replace = false } = {}) {
  const hash = formatRoute(route);
  if (hash === location.hash) return;
  if (replace) history.replaceState(history.state, "", hash);
  else history.pushState(null, "", hash);
  window.dispatchEvent(new Event("routechange"));
}

// Calls `listener` with the current route, then with each new one.
export function watchRoute(listener) {
  const tell = () => listener(parseRoute(location.hash));
  window.addEventListener("popstate", tell);
  window.addEventListener("routechange", tell);
  tell();
}

function stepOf(parts) {
  if (parts[0] !== "step" || !/^\d{1,9}$/.test(parts[1] ?? "")) return null;
  return Number(parts[1]);
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
