// MiniWoB++'s part of the page script: begins seeded episodes and reports their rewards.
// The protocol is that of the pages' own core.js.
const wob = {
  prepared: false,
  ownTimeLimit: 0,
  timeProportional: false,
  startedAt: 0,
  elapsed: 0,
};

// Things that core.js draws around the task for people: the score, the start cover, the click trace.
page.furniture = "#reward-display, #click-canvas, #sync-task-cover";

function prepareWob(timeLimit) {
  const core = window.core;
  wob.ownTimeLimit = core.EPISODE_MAX_TIME;
  core.EPISODE_MAX_TIME = timeLimit;
  // The cover would hide the page's final state, and the countdown would stir the page.
  core.startEpisode = () => {};
  core.countdownTimer = () => {};
  core.clearTimer = () => {};
  // The click trace marks every element that is clicked.
  document.body.removeEventListener("click", core.canvasDrawClick);
  const endEpisode = core.endEpisode;
  core.endEpisode = (reward, timeProportional, reason) => {
    if (core.EP_TIMER !== null) {
      wob.elapsed = now() - wob.startedAt;
      wob.timeProportional = timeProportional === true;
    }
    return endEpisode(reward, timeProportional, reason);
  };
  // A constructed style sheet is not a node of the document. The query stays in the layout, so that
  // the task keeps its place.
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(
    `${page.furniture} { display: none !important }
     #query, #query * { visibility: hidden !important }`);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  wob.prepared = true;
}

page.task = {
  begin({seed, time_limit}) {
    if (!wob.prepared) prepareWob(time_limit);
    document.activeElement?.blur();
    Math.seedrandom(seed);
    wob.timeProportional = false;
    wob.elapsed = 0;
    core.startEpisodeReal();
    wob.startedAt = now();
    // Some pages give the goal with its field values: half of the answer.
    const given = core.getUtterance();
    return {goal: typeof given === "string" ? given : given.utterance};
  },

  // A document without an episode: the page was left or reloaded.
  state() {
    if (!wob.prepared) return {done: true, raw: 0, scaled: 0, reason: "the task's page was left"};
    const raw = Number(window.WOB_RAW_REWARD_GLOBAL) || 0;
    const left = wob.timeProportional ? Math.max(0, 1 - wob.elapsed / wob.ownTimeLimit) : 1;
    return {
      done: window.WOB_DONE_GLOBAL === true,
      raw,
      scaled: raw * left,
      reason: window.WOB_REWARD_REASON == null ? "" : String(window.WOB_REWARD_REASON),
    };
  },
};
