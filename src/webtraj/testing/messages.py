"""Messages for violations of the environment contract, shared by tests and users.

The first seven are dm_env's own, word for word (dm_env/test_utils.py).
"""

STEP_NEW_ENV_MUST_RETURN_FIRST = (
    "calling step() on a fresh environment must produce a step with step_type FIRST, got {}"
)
RESET_MUST_RETURN_FIRST = "reset() must produce a step with step_type FIRST, got {}."
FIRST_MUST_NOT_HAVE_REWARD = "a FIRST step must not have a reward."
FIRST_MUST_NOT_HAVE_DISCOUNT = "a FIRST step must not have a discount."
STEP_AFTER_FIRST_MUST_NOT_RETURN_FIRST = (
    "calling step() after a FIRST step must not produce another FIRST."
)
FIRST_MUST_COME_AFTER_LAST = "step() must produce a FIRST step after a LAST step."
FIRST_MUST_ONLY_COME_AFTER_LAST = (
    "step() must only produce a FIRST step after a LAST step or on a fresh environment."
)

MUST_BE_A_TIMESTEP = "reset() and step() must return a dm_env.TimeStep, got {}."
MUST_HAVE_A_STEP_TYPE = "the step_type must be a dm_env.StepType, got {!r}."
MUST_NOT_HANG = "the environment did not finish within {} s."
LAST_MUST_END_ONE_WAY = (
    "the discount of a LAST step must be 0 (a termination) or above 0 (a truncation) throughout, "
    "got {!r}."
)
LAST_MUST_END_AS_EXPECTED = "the episode must end {}; its LAST step has discount {!r}."
OBSERVATION_MUST_NOT_CHANGE = (
    "an observation must not change after it was emitted; return a copy of what step() writes to."
)
CLOSE_MUST_BE_IDEMPOTENT = "close() must succeed at any time, and again; it raised {}."
EXIT_MUST_LET_EXCEPTIONS_OUT = (
    "an exception in the body of `async with` must come out of it unchanged, got {}."
)
CANCELLATION_MUST_NOT_BE_SWALLOWED = (
    "a cancelled reset() or step() must raise CancelledError; it returned."
)
RECORD_MUST_HAVE_TWO_EPISODES = (
    "a whole episode and the beginning of another must be recorded as 2 episodes, got {}."
)
NO_END_REACHED = "no end of an episode was reached; override make_action_sequence so that one is."
STRUCTURES_MUST_MATCH = (
    "the value at {path!r} must have the structure of its spec {spec!r}, got {value!r}."
)
NO_ACTION_SPEC = "the environment has no action_spec; override make_action."
