# ruff: noqa
# mypy: disable-error-code="type-arg"
import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Place(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLACE_UNKNOWN: _ClassVar[Place]
    PLACE_ACTION_STRING: _ClassVar[Place]
    PLACE_URL: _ClassVar[Place]
    PLACE_LEGACY_GOAL: _ClassVar[Place]
    PLACE_FOCUSED_ELEMENT_BID: _ClassVar[Place]
    PLACE_LAST_ACTION: _ClassVar[Place]
    PLACE_LAST_ACTION_ERROR: _ClassVar[Place]
    PLACE_DOM: _ClassVar[Place]
    PLACE_AXTREE: _ClassVar[Place]
    PLACE_EXTRA_ELEMENT_PROPERTIES: _ClassVar[Place]

class StepType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP_TYPE_UNKNOWN: _ClassVar[StepType]
    STEP_TYPE_FIRST: _ClassVar[StepType]
    STEP_TYPE_MID: _ClassVar[StepType]
    STEP_TYPE_LAST: _ClassVar[StepType]

class EndReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    END_REASON_UNKNOWN: _ClassVar[EndReason]
    END_REASON_TERMINATED: _ClassVar[EndReason]
    END_REASON_TRUNCATED: _ClassVar[EndReason]
    END_REASON_INTERRUPTED: _ClassVar[EndReason]
    END_REASON_CLOSED: _ClassVar[EndReason]
    END_REASON_ERRORED: _ClassVar[EndReason]
    END_REASON_CANCELLED: _ClassVar[EndReason]
    END_REASON_CRASHED: _ClassVar[EndReason]

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PHASE_UNKNOWN: _ClassVar[Phase]
    PHASE_RESET: _ClassVar[Phase]
    PHASE_STEP: _ClassVar[Phase]
    PHASE_CLOSE: _ClassVar[Phase]
    PHASE_EXIT: _ClassVar[Phase]
    PHASE_RECOVERY: _ClassVar[Phase]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNKNOWN: _ClassVar[Outcome]
    OUTCOME_SUCCESS: _ClassVar[Outcome]
    OUTCOME_FAILURE: _ClassVar[Outcome]
    OUTCOME_BLOCKED: _ClassVar[Outcome]
    OUTCOME_ENV_ERROR: _ClassVar[Outcome]
    OUTCOME_AGENT_ERROR: _ClassVar[Outcome]
    OUTCOME_JUDGE_ERROR: _ClassVar[Outcome]
    OUTCOME_TIMEOUT: _ClassVar[Outcome]
    OUTCOME_CANCELLED: _ClassVar[Outcome]
    OUTCOME_MODEL_ERROR: _ClassVar[Outcome]

PLACE_UNKNOWN: Place
PLACE_ACTION_STRING: Place
PLACE_URL: Place
PLACE_LEGACY_GOAL: Place
PLACE_FOCUSED_ELEMENT_BID: Place
PLACE_LAST_ACTION: Place
PLACE_LAST_ACTION_ERROR: Place
PLACE_DOM: Place
PLACE_AXTREE: Place
PLACE_EXTRA_ELEMENT_PROPERTIES: Place
STEP_TYPE_UNKNOWN: StepType
STEP_TYPE_FIRST: StepType
STEP_TYPE_MID: StepType
STEP_TYPE_LAST: StepType
END_REASON_UNKNOWN: EndReason
END_REASON_TERMINATED: EndReason
END_REASON_TRUNCATED: EndReason
END_REASON_INTERRUPTED: EndReason
END_REASON_CLOSED: EndReason
END_REASON_ERRORED: EndReason
END_REASON_CANCELLED: EndReason
END_REASON_CRASHED: EndReason
PHASE_UNKNOWN: Phase
PHASE_RESET: Phase
PHASE_STEP: Phase
PHASE_CLOSE: Phase
PHASE_EXIT: Phase
PHASE_RECOVERY: Phase
OUTCOME_UNKNOWN: Outcome
OUTCOME_SUCCESS: Outcome
OUTCOME_FAILURE: Outcome
OUTCOME_BLOCKED: Outcome
OUTCOME_ENV_ERROR: Outcome
OUTCOME_AGENT_ERROR: Outcome
OUTCOME_JUDGE_ERROR: Outcome
OUTCOME_TIMEOUT: Outcome
OUTCOME_CANCELLED: Outcome
OUTCOME_MODEL_ERROR: Outcome

class TrajectoryData(_message.Message):
    __slots__ = ("domain", "goal", "actions", "success", "failure", "webtraj")
    class ResultSuccess(_message.Message):
        __slots__ = ("answer",)
        ANSWER_FIELD_NUMBER: _ClassVar[int]
        answer: str
        def __init__(self, answer: _Optional[str] = ...) -> None: ...

    class ResultFailure(_message.Message):
        __slots__ = ("failure_message",)
        class FailureMessage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            FAILURE_MESSAGE_UNSPECIFIED: _ClassVar[TrajectoryData.ResultFailure.FailureMessage]
            UNKNOWN_ERROR: _ClassVar[TrajectoryData.ResultFailure.FailureMessage]
            MAX_STEPS_EXCEEDED: _ClassVar[TrajectoryData.ResultFailure.FailureMessage]
            REPORT_INFEASIBLE: _ClassVar[TrajectoryData.ResultFailure.FailureMessage]
            REPETITIVE_ACTIONS: _ClassVar[TrajectoryData.ResultFailure.FailureMessage]

        FAILURE_MESSAGE_UNSPECIFIED: TrajectoryData.ResultFailure.FailureMessage
        UNKNOWN_ERROR: TrajectoryData.ResultFailure.FailureMessage
        MAX_STEPS_EXCEEDED: TrajectoryData.ResultFailure.FailureMessage
        REPORT_INFEASIBLE: TrajectoryData.ResultFailure.FailureMessage
        REPETITIVE_ACTIONS: TrajectoryData.ResultFailure.FailureMessage
        FAILURE_MESSAGE_FIELD_NUMBER: _ClassVar[int]
        failure_message: TrajectoryData.ResultFailure.FailureMessage
        def __init__(
            self,
            failure_message: _Optional[
                _Union[TrajectoryData.ResultFailure.FailureMessage, str]
            ] = ...,
        ) -> None: ...

    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    GOAL_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    WEBTRAJ_FIELD_NUMBER: _ClassVar[int]
    domain: str
    goal: str
    actions: _containers.RepeatedCompositeFieldContainer[ActionData]
    success: TrajectoryData.ResultSuccess
    failure: TrajectoryData.ResultFailure
    webtraj: EpisodeData
    def __init__(
        self,
        domain: _Optional[str] = ...,
        goal: _Optional[str] = ...,
        actions: _Optional[_Iterable[_Union[ActionData, _Mapping]]] = ...,
        success: _Optional[_Union[TrajectoryData.ResultSuccess, _Mapping]] = ...,
        failure: _Optional[_Union[TrajectoryData.ResultFailure, _Mapping]] = ...,
        webtraj: _Optional[_Union[EpisodeData, _Mapping]] = ...,
    ) -> None: ...

class ActionData(_message.Message):
    __slots__ = (
        "id",
        "domain",
        "before_state",
        "after_state",
        "agent_state",
        "playwright_trace",
        "browser_gym_action",
        "action",
        "webtraj",
    )
    ID_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    BEFORE_STATE_FIELD_NUMBER: _ClassVar[int]
    AFTER_STATE_FIELD_NUMBER: _ClassVar[int]
    AGENT_STATE_FIELD_NUMBER: _ClassVar[int]
    PLAYWRIGHT_TRACE_FIELD_NUMBER: _ClassVar[int]
    BROWSER_GYM_ACTION_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    WEBTRAJ_FIELD_NUMBER: _ClassVar[int]
    id: str
    domain: str
    before_state: WebState
    after_state: WebState
    agent_state: AgentState
    playwright_trace: bytes
    browser_gym_action: BrowserGymAction
    action: RecordedAction
    webtraj: StepData
    def __init__(
        self,
        id: _Optional[str] = ...,
        domain: _Optional[str] = ...,
        before_state: _Optional[_Union[WebState, _Mapping]] = ...,
        after_state: _Optional[_Union[WebState, _Mapping]] = ...,
        agent_state: _Optional[_Union[AgentState, _Mapping]] = ...,
        playwright_trace: _Optional[bytes] = ...,
        browser_gym_action: _Optional[_Union[BrowserGymAction, _Mapping]] = ...,
        action: _Optional[_Union[RecordedAction, _Mapping]] = ...,
        webtraj: _Optional[_Union[StepData, _Mapping]] = ...,
    ) -> None: ...

class BrowserGymAction(_message.Message):
    __slots__ = ("action_string",)
    ACTION_STRING_FIELD_NUMBER: _ClassVar[int]
    action_string: str
    def __init__(self, action_string: _Optional[str] = ...) -> None: ...

class RecordedAction(_message.Message):
    __slots__ = ("description", "raw_events", "before_state")
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    RAW_EVENTS_FIELD_NUMBER: _ClassVar[int]
    BEFORE_STATE_FIELD_NUMBER: _ClassVar[int]
    description: str
    raw_events: _containers.RepeatedCompositeFieldContainer[RawEvent]
    before_state: RecordedState
    def __init__(
        self,
        description: _Optional[str] = ...,
        raw_events: _Optional[_Iterable[_Union[RawEvent, _Mapping]]] = ...,
        before_state: _Optional[_Union[RecordedState, _Mapping]] = ...,
    ) -> None: ...

class RawEvent(_message.Message):
    __slots__ = ("mouse",)
    MOUSE_FIELD_NUMBER: _ClassVar[int]
    mouse: MouseEvent
    def __init__(self, mouse: _Optional[_Union[MouseEvent, _Mapping]] = ...) -> None: ...

class MouseEvent(_message.Message):
    __slots__ = ("viewport_x", "viewport_y")
    VIEWPORT_X_FIELD_NUMBER: _ClassVar[int]
    VIEWPORT_Y_FIELD_NUMBER: _ClassVar[int]
    viewport_x: float
    viewport_y: float
    def __init__(
        self, viewport_x: _Optional[float] = ..., viewport_y: _Optional[float] = ...
    ) -> None: ...

class RecordedState(_message.Message):
    __slots__ = ("viewport_width", "viewport_height")
    VIEWPORT_WIDTH_FIELD_NUMBER: _ClassVar[int]
    VIEWPORT_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    viewport_width: float
    viewport_height: float
    def __init__(
        self, viewport_width: _Optional[float] = ..., viewport_height: _Optional[float] = ...
    ) -> None: ...

class WebState(_message.Message):
    __slots__ = ("fingerprint", "url", "viewport", "browser_gym_observation")
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    VIEWPORT_FIELD_NUMBER: _ClassVar[int]
    BROWSER_GYM_OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    fingerprint: str
    url: str
    viewport: Viewport
    browser_gym_observation: BrowserGymObservation
    def __init__(
        self,
        fingerprint: _Optional[str] = ...,
        url: _Optional[str] = ...,
        viewport: _Optional[_Union[Viewport, _Mapping]] = ...,
        browser_gym_observation: _Optional[_Union[BrowserGymObservation, _Mapping]] = ...,
    ) -> None: ...

class Viewport(_message.Message):
    __slots__ = ("screenshot", "viewport_rect")
    SCREENSHOT_FIELD_NUMBER: _ClassVar[int]
    VIEWPORT_RECT_FIELD_NUMBER: _ClassVar[int]
    screenshot: DocumentBlob
    viewport_rect: Rect
    def __init__(
        self,
        screenshot: _Optional[_Union[DocumentBlob, _Mapping]] = ...,
        viewport_rect: _Optional[_Union[Rect, _Mapping]] = ...,
    ) -> None: ...

class DocumentBlob(_message.Message):
    __slots__ = ("mime_type", "content")
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    mime_type: str
    content: bytes
    def __init__(
        self, mime_type: _Optional[str] = ..., content: _Optional[bytes] = ...
    ) -> None: ...

class Rect(_message.Message):
    __slots__ = ("x", "y", "width", "height")
    X_FIELD_NUMBER: _ClassVar[int]
    Y_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    x: float
    y: float
    width: float
    height: float
    def __init__(
        self,
        x: _Optional[float] = ...,
        y: _Optional[float] = ...,
        width: _Optional[float] = ...,
        height: _Optional[float] = ...,
    ) -> None: ...

class BrowserGymObservation(_message.Message):
    __slots__ = (
        "reward",
        "truncated",
        "terminated",
        "chat_messages",
        "legacy_goal",
        "goals",
        "open_pages_urls",
        "active_page_index",
        "dom",
        "axtree",
        "extra_element_properties",
        "focused_element_bid",
        "last_action",
        "last_action_error",
        "elapsed_time",
    )
    class ChatMessage(_message.Message):
        __slots__ = ("role", "timestamp", "message")
        ROLE_FIELD_NUMBER: _ClassVar[int]
        TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        role: str
        timestamp: _timestamp_pb2.Timestamp
        message: str
        def __init__(
            self,
            role: _Optional[str] = ...,
            timestamp: _Optional[
                _Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]
            ] = ...,
            message: _Optional[str] = ...,
        ) -> None: ...

    REWARD_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    TERMINATED_FIELD_NUMBER: _ClassVar[int]
    CHAT_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LEGACY_GOAL_FIELD_NUMBER: _ClassVar[int]
    GOALS_FIELD_NUMBER: _ClassVar[int]
    OPEN_PAGES_URLS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_PAGE_INDEX_FIELD_NUMBER: _ClassVar[int]
    DOM_FIELD_NUMBER: _ClassVar[int]
    AXTREE_FIELD_NUMBER: _ClassVar[int]
    EXTRA_ELEMENT_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    FOCUSED_ELEMENT_BID_FIELD_NUMBER: _ClassVar[int]
    LAST_ACTION_FIELD_NUMBER: _ClassVar[int]
    LAST_ACTION_ERROR_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_TIME_FIELD_NUMBER: _ClassVar[int]
    reward: float
    truncated: bool
    terminated: bool
    chat_messages: _containers.RepeatedCompositeFieldContainer[BrowserGymObservation.ChatMessage]
    legacy_goal: str
    goals: _containers.RepeatedCompositeFieldContainer[LLMContent]
    open_pages_urls: _containers.RepeatedScalarFieldContainer[str]
    active_page_index: int
    dom: bytes
    axtree: bytes
    extra_element_properties: bytes
    focused_element_bid: str
    last_action: str
    last_action_error: str
    elapsed_time: _duration_pb2.Duration
    def __init__(
        self,
        reward: _Optional[float] = ...,
        truncated: _Optional[bool] = ...,
        terminated: _Optional[bool] = ...,
        chat_messages: _Optional[
            _Iterable[_Union[BrowserGymObservation.ChatMessage, _Mapping]]
        ] = ...,
        legacy_goal: _Optional[str] = ...,
        goals: _Optional[_Iterable[_Union[LLMContent, _Mapping]]] = ...,
        open_pages_urls: _Optional[_Iterable[str]] = ...,
        active_page_index: _Optional[int] = ...,
        dom: _Optional[bytes] = ...,
        axtree: _Optional[bytes] = ...,
        extra_element_properties: _Optional[bytes] = ...,
        focused_element_bid: _Optional[str] = ...,
        last_action: _Optional[str] = ...,
        last_action_error: _Optional[str] = ...,
        elapsed_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...,
    ) -> None: ...

class AgentState(_message.Message):
    __slots__ = ("llm_interactions", "memory", "previous_failed_agent_state", "webtraj")
    LLM_INTERACTIONS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FAILED_AGENT_STATE_FIELD_NUMBER: _ClassVar[int]
    WEBTRAJ_FIELD_NUMBER: _ClassVar[int]
    llm_interactions: _containers.RepeatedCompositeFieldContainer[LLMInteraction]
    memory: str
    previous_failed_agent_state: AgentState
    webtraj: DecisionData
    def __init__(
        self,
        llm_interactions: _Optional[_Iterable[_Union[LLMInteraction, _Mapping]]] = ...,
        memory: _Optional[str] = ...,
        previous_failed_agent_state: _Optional[_Union[AgentState, _Mapping]] = ...,
        webtraj: _Optional[_Union[DecisionData, _Mapping]] = ...,
    ) -> None: ...

class LLMInteraction(_message.Message):
    __slots__ = ("model_family", "model_name", "llm_messages", "response", "webtraj")
    MODEL_FAMILY_FIELD_NUMBER: _ClassVar[int]
    MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    LLM_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    WEBTRAJ_FIELD_NUMBER: _ClassVar[int]
    model_family: str
    model_name: str
    llm_messages: _containers.RepeatedCompositeFieldContainer[LLMMessage]
    response: str
    webtraj: ModelCallData
    def __init__(
        self,
        model_family: _Optional[str] = ...,
        model_name: _Optional[str] = ...,
        llm_messages: _Optional[_Iterable[_Union[LLMMessage, _Mapping]]] = ...,
        response: _Optional[str] = ...,
        webtraj: _Optional[_Union[ModelCallData, _Mapping]] = ...,
    ) -> None: ...

class LLMMessage(_message.Message):
    __slots__ = ("role", "llm_contents", "content_is_list", "exact")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    LLM_CONTENTS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_IS_LIST_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    role: str
    llm_contents: _containers.RepeatedCompositeFieldContainer[LLMContent]
    content_is_list: bool
    exact: Value
    def __init__(
        self,
        role: _Optional[str] = ...,
        llm_contents: _Optional[_Iterable[_Union[LLMContent, _Mapping]]] = ...,
        content_is_list: _Optional[bool] = ...,
        exact: _Optional[_Union[Value, _Mapping]] = ...,
    ) -> None: ...

class LLMContent(_message.Message):
    __slots__ = ("text", "image_url")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_URL_FIELD_NUMBER: _ClassVar[int]
    text: str
    image_url: str
    def __init__(self, text: _Optional[str] = ..., image_url: _Optional[str] = ...) -> None: ...

class Value(_message.Message):
    __slots__ = ("json_value", "map_value", "place")
    JSON_VALUE_FIELD_NUMBER: _ClassVar[int]
    MAP_VALUE_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    json_value: bytes
    map_value: MapValue
    place: Place
    def __init__(
        self,
        json_value: _Optional[bytes] = ...,
        map_value: _Optional[_Union[MapValue, _Mapping]] = ...,
        place: _Optional[_Union[Place, str]] = ...,
    ) -> None: ...

class MapValue(_message.Message):
    __slots__ = ("keys", "values")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    values: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(
        self,
        keys: _Optional[_Iterable[str]] = ...,
        values: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...,
    ) -> None: ...

class ExtraFields(_message.Message):
    __slots__ = ("keys", "values", "order")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    values: _containers.RepeatedCompositeFieldContainer[Value]
    order: _containers.RepeatedScalarFieldContainer[str]
    def __init__(
        self,
        keys: _Optional[_Iterable[str]] = ...,
        values: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...,
        order: _Optional[_Iterable[str]] = ...,
    ) -> None: ...

class EpisodeData(_message.Message):
    __slots__ = ("schema_version", "info", "start_time", "end_time", "end", "blobs", "extra")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    info: EpisodeInfo
    start_time: float
    end_time: float
    end: EpisodeEnd
    blobs: _containers.RepeatedCompositeFieldContainer[DocumentBlob]
    extra: ExtraFields
    def __init__(
        self,
        schema_version: _Optional[int] = ...,
        info: _Optional[_Union[EpisodeInfo, _Mapping]] = ...,
        start_time: _Optional[float] = ...,
        end_time: _Optional[float] = ...,
        end: _Optional[_Union[EpisodeEnd, _Mapping]] = ...,
        blobs: _Optional[_Iterable[_Union[DocumentBlob, _Mapping]]] = ...,
        extra: _Optional[_Union[ExtraFields, _Mapping]] = ...,
    ) -> None: ...

class EpisodeInfo(_message.Message):
    __slots__ = (
        "episode_id",
        "task",
        "seed",
        "environment",
        "versions",
        "policy",
        "group_id",
        "attempt",
        "parent_episode_id",
        "retry_of",
        "metadata",
        "derivation",
        "extra",
    )
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PARENT_EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    RETRY_OF_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    DERIVATION_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    task: str
    seed: int
    environment: str
    versions: Value
    policy: str
    group_id: str
    attempt: int
    parent_episode_id: str
    retry_of: str
    metadata: Value
    derivation: _containers.RepeatedCompositeFieldContainer[Derivation]
    extra: ExtraFields
    def __init__(
        self,
        episode_id: _Optional[str] = ...,
        task: _Optional[str] = ...,
        seed: _Optional[int] = ...,
        environment: _Optional[str] = ...,
        versions: _Optional[_Union[Value, _Mapping]] = ...,
        policy: _Optional[str] = ...,
        group_id: _Optional[str] = ...,
        attempt: _Optional[int] = ...,
        parent_episode_id: _Optional[str] = ...,
        retry_of: _Optional[str] = ...,
        metadata: _Optional[_Union[Value, _Mapping]] = ...,
        derivation: _Optional[_Iterable[_Union[Derivation, _Mapping]]] = ...,
        extra: _Optional[_Union[ExtraFields, _Mapping]] = ...,
    ) -> None: ...

class Derivation(_message.Message):
    __slots__ = (
        "step",
        "version",
        "software",
        "settings",
        "model",
        "prompt_sha256",
        "source",
        "source_episode_id",
        "source_sha256",
        "changes",
        "extra",
    )
    STEP_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_SHA256_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_SHA256_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    step: str
    version: str
    software: str
    settings: Value
    model: str
    prompt_sha256: str
    source: str
    source_episode_id: str
    source_sha256: str
    changes: Value
    extra: ExtraFields
    def __init__(
        self,
        step: _Optional[str] = ...,
        version: _Optional[str] = ...,
        software: _Optional[str] = ...,
        settings: _Optional[_Union[Value, _Mapping]] = ...,
        model: _Optional[str] = ...,
        prompt_sha256: _Optional[str] = ...,
        source: _Optional[str] = ...,
        source_episode_id: _Optional[str] = ...,
        source_sha256: _Optional[str] = ...,
        changes: _Optional[_Union[Value, _Mapping]] = ...,
        extra: _Optional[_Union[ExtraFields, _Mapping]] = ...,
    ) -> None: ...

class StepData(_message.Message):
    __slots__ = (
        "index",
        "step_type",
        "observation",
        "action",
        "reward",
        "discount",
        "start_time",
        "end_time",
        "ignored_action",
        "extra",
    )
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STEP_TYPE_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    DISCOUNT_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    IGNORED_ACTION_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    index: int
    step_type: StepType
    observation: Value
    action: Value
    reward: Value
    discount: Value
    start_time: float
    end_time: float
    ignored_action: Value
    extra: ExtraFields
    def __init__(
        self,
        index: _Optional[int] = ...,
        step_type: _Optional[_Union[StepType, str]] = ...,
        observation: _Optional[_Union[Value, _Mapping]] = ...,
        action: _Optional[_Union[Value, _Mapping]] = ...,
        reward: _Optional[_Union[Value, _Mapping]] = ...,
        discount: _Optional[_Union[Value, _Mapping]] = ...,
        start_time: _Optional[float] = ...,
        end_time: _Optional[float] = ...,
        ignored_action: _Optional[_Union[Value, _Mapping]] = ...,
        extra: _Optional[_Union[ExtraFields, _Mapping]] = ...,
    ) -> None: ...

class DecisionData(_message.Message):
    __slots__ = ("action", "thought", "parse_error", "metadata", "extra")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    THOUGHT_FIELD_NUMBER: _ClassVar[int]
    PARSE_ERROR_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    action: Value
    thought: str
    parse_error: str
    metadata: Value
    extra: ExtraFields
    def __init__(
        self,
        action: _Optional[_Union[Value, _Mapping]] = ...,
        thought: _Optional[str] = ...,
        parse_error: _Optional[str] = ...,
        metadata: _Optional[_Union[Value, _Mapping]] = ...,
        extra: _Optional[_Union[ExtraFields, _Mapping]] = ...,
    ) -> None: ...

class ModelCallData(_message.Message):
    __slots__ = (
        "policy_version",
        "sampling",
        "response",
        "finish_reason",
        "usage",
        "prompt_token_ids",
        "completion_token_ids",
        "logprobs",
        "start_time",
        "latency",
        "error",
        "failed_attempts",
        "extra",
    )
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    LATENCY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FAILED_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    policy_version: str
    sampling: Value
    response: Value
    finish_reason: str
    usage: Value
    prompt_token_ids: _containers.RepeatedScalarFieldContainer[int]
    completion_token_ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    start_time: float
    latency: float
    error: str
    failed_attempts: _containers.RepeatedCompositeFieldContainer[FailedAttempt]
    extra: ExtraFields
    def __init__(
        self,
        policy_version: _Optional[str] = ...,
        sampling: _Optional[_Union[Value, _Mapping]] = ...,
        response: _Optional[_Union[Value, _Mapping]] = ...,
        finish_reason: _Optional[str] = ...,
        usage: _Optional[_Union[Value, _Mapping]] = ...,
        prompt_token_ids: _Optional[_Iterable[int]] = ...,
        completion_token_ids: _Optional[_Iterable[int]] = ...,
        logprobs: _Optional[_Iterable[float]] = ...,
        start_time: _Optional[float] = ...,
        latency: _Optional[float] = ...,
        error: _Optional[str] = ...,
        failed_attempts: _Optional[_Iterable[_Union[FailedAttempt, _Mapping]]] = ...,
        extra: _Optional[_Union[ExtraFields, _Mapping]] = ...,
    ) -> None: ...

class FailedAttempt(_message.Message):
    __slots__ = ("error", "status", "start_time", "latency", "extra")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    LATENCY_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    error: str
    status: int
    start_time: float
    latency: float
    extra: ExtraFields
    def __init__(
        self,
        error: _Optional[str] = ...,
        status: _Optional[int] = ...,
        start_time: _Optional[float] = ...,
        latency: _Optional[float] = ...,
        extra: _Optional[_Union[ExtraFields, _Mapping]] = ...,
    ) -> None: ...

class EpisodeEnd(_message.Message):
    __slots__ = (
        "reason",
        "phase",
        "detail",
        "error",
        "action_in_flight",
        "in_flight_action",
        "in_flight_decision",
        "outcome",
        "violations",
        "recording_errors",
        "judgements",
        "extra",
    )
    REASON_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ACTION_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_ACTION_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_DECISION_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    RECORDING_ERRORS_FIELD_NUMBER: _ClassVar[int]
    JUDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    reason: EndReason
    phase: Phase
    detail: str
    error: ErrorInfo
    action_in_flight: bool
    in_flight_action: Value
    in_flight_decision: AgentState
    outcome: Outcome
    violations: _containers.RepeatedScalarFieldContainer[str]
    recording_errors: _containers.RepeatedScalarFieldContainer[str]
    judgements: _containers.RepeatedCompositeFieldContainer[Judgement]
    extra: ExtraFields
    def __init__(
        self,
        reason: _Optional[_Union[EndReason, str]] = ...,
        phase: _Optional[_Union[Phase, str]] = ...,
        detail: _Optional[str] = ...,
        error: _Optional[_Union[ErrorInfo, _Mapping]] = ...,
        action_in_flight: _Optional[bool] = ...,
        in_flight_action: _Optional[_Union[Value, _Mapping]] = ...,
        in_flight_decision: _Optional[_Union[AgentState, _Mapping]] = ...,
        outcome: _Optional[_Union[Outcome, str]] = ...,
        violations: _Optional[_Iterable[str]] = ...,
        recording_errors: _Optional[_Iterable[str]] = ...,
        judgements: _Optional[_Iterable[_Union[Judgement, _Mapping]]] = ...,
        extra: _Optional[_Union[ExtraFields, _Mapping]] = ...,
    ) -> None: ...

class Judgement(_message.Message):
    __slots__ = (
        "judge",
        "version",
        "outcome",
        "reward",
        "reason",
        "findings",
        "model_calls",
        "time",
        "extra",
    )
    JUDGE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    MODEL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    judge: str
    version: str
    outcome: Outcome
    reward: float
    reason: str
    findings: Value
    model_calls: _containers.RepeatedCompositeFieldContainer[LLMInteraction]
    time: float
    extra: ExtraFields
    def __init__(
        self,
        judge: _Optional[str] = ...,
        version: _Optional[str] = ...,
        outcome: _Optional[_Union[Outcome, str]] = ...,
        reward: _Optional[float] = ...,
        reason: _Optional[str] = ...,
        findings: _Optional[_Union[Value, _Mapping]] = ...,
        model_calls: _Optional[_Iterable[_Union[LLMInteraction, _Mapping]]] = ...,
        time: _Optional[float] = ...,
        extra: _Optional[_Union[ExtraFields, _Mapping]] = ...,
    ) -> None: ...

class ErrorInfo(_message.Message):
    __slots__ = ("type", "message", "traceback", "extra")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    type: str
    message: str
    traceback: str
    extra: ExtraFields
    def __init__(
        self,
        type: _Optional[str] = ...,
        message: _Optional[str] = ...,
        traceback: _Optional[str] = ...,
        extra: _Optional[_Union[ExtraFields, _Mapping]] = ...,
    ) -> None: ...
