"""WebGym's trajectories: each end that its rollouts come to, as its own code stores it."""

from __future__ import annotations

import json

CALL = '<tool_call>\n{"name": "computer_use", "arguments": %s}\n</tool_call>'
PROMPT = [
    {"role": "system", "content": "You act in a browser."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Find the opening hours."},
            {"type": "image_url", "image_url": {"url": "file:///logs/images/step_000.png"}},
        ],
    },
]


def trajectories(make):
    """Returns trajectories, given `make(class name, **fields)`."""

    def task(index):
        return make(
            "Task",
            task_name="Find the opening hours.",
            domain="Lifestyle & Leisure",
            subdomain="Pets & Animal Welfare",
            website="https://zoo.example",
            difficulty=2,
            evaluator_reference=[{"id": 1, "description": "names the hours", "facts": ["9-17"]}],
            reference_answer="9 to 17",
            attempt_level=0,
            task_id="17",
            max_steps=10,
            trajectory_index=index,
        )

    def reward(value, evaluation, *, blocked=False):
        return make(
            "Reward",
            reward=value,
            evaluation=evaluation,
            is_blocked=blocked,
            submit=False,
            submission_judgment=None,
        )

    def step(of, number, key, arguments, wire, graded, **more):
        raw = f"Memory: {{}}\nIntention: go on\nAction: do it\n{CALL % json.dumps(wire)}"
        return {
            "observation": make(
                "Observation",
                task=of,
                image_path=f"images/task_0000_abc/step_{number:03d}.png",
                ac_tree="1, About, a",
                page_metadata={"title": "Zoo", "url": "https://zoo.example/"},
            ),
            "action": make(
                "Action",
                action={"key": key, "arguments": arguments},
                action_string=f"{key} {arguments}",
            ),
            "response": make(
                "Response",
                raw_response=raw,
                answering_tokens={
                    "thought": "go on", "action": "do it", "memory": "{}", "tool_call": "",
                    "thinking": "", "observation": "the webpage changed",
                },
                raw_prompt=json.dumps(PROMPT, indent=2),
            ),
            "reward": graded,
            **more,
        }  # fmt: skip

    busy = reward(0, "Task in progress")

    def episode(index, last):
        of = task(index)
        click = {"action": "left_click", "coordinate": [500, 250]}
        answer = {"action": "answer", "text": "9 to 17"}
        first = step(
            of, 0, "click", {"coordinates": [500, 250]}, click, busy,
            same_as_next_screenshot=False, trajectory_metadata={"keypoint_step_ids": [1]},
        )  # fmt: skip
        return [first, step(of, 1, "answer", {"content": "9 to 17"}, answer, last)]

    unanswered = episode(5, reward(0, "Task incomplete - no answer provided"))
    scroll = {"action": "scroll", "direction": "down"}
    unanswered[1] = step(
        task(5), 1, "scroll", {"direction": "down"}, scroll, unanswered[1]["reward"]
    )
    in_progress = episode(6, busy)
    in_progress[1] = {**unanswered[1], "reward": busy}

    def dummy(index):
        return [
            {
                "observation": make(
                    "Observation", task=task(index), image_path="", ac_tree="", page_metadata={}
                ),
                "action": make(
                    "Action",
                    action={"key": "error", "arguments": {"error": "GRACE_PERIOD_INCOMPLETE"}},
                    action_string="Error",
                ),
                "response": make(
                    "Response", raw_response="Error", answering_tokens={}, raw_prompt=""
                ),
                "reward": reward(0, "Task failed: grace period expired"),
                "error_type": "GRACE_PERIOD_INCOMPLETE",
                "error_message": "[GRACE_PERIOD_INCOMPLETE] Task did not complete",
            }
        ]

    broken = episode(8, busy)
    broken[1] = {
        **dummy(8)[0],
        "action": make(
            "Action",
            action={"key": "invalid_step", "arguments": {"error": "HTTP 500"}},
            action_string="Error at step 1: HTTP 500",
        ),
    }
    del broken[1]["error_type"], broken[1]["error_message"]
    return [
        episode(0, reward(1, "SUCCESS: all facts")),
        episode(1, reward(0, "NOT SUCCESS: wrong hours")),
        episode(2, reward(-1, "Evaluation in progress...")),
        episode(3, reward(0, "Async evaluation failed: 503")),
        episode(4, reward(0, "Website blocked the agent", blocked=True)),
        unanswered,
        in_progress,
        dummy(7),
        broken,
    ]
