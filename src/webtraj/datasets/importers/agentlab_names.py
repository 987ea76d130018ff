"""The classes that step files of BrowserGym and AgentLab name."""

from __future__ import annotations

__all__ = ["STEP_NAMES"]

STEP_NAMES = frozenset(
    {
        *(
            f"{home}.{name}"
            for home in ("browsergym.experiments.loop", "agentlab.experiments.loop")
            for name in ("StepInfo", "StepTimestamps")
        ),
        "browsergym.experiments.agent.AgentInfo",
        *(
            f"agentlab.llm.llm_utils.{name}"
            for name in ("Discussion", "BaseMessage", "SystemMessage", "HumanMessage", "AIMessage")
        ),
        *(
            f"openai.types.chat.{name}"
            for name in (
                "chat_completion.ChatCompletion",
                "chat_completion.Choice",
                "chat_completion_message.ChatCompletionMessage",
                "chat_completion_message_tool_call.ChatCompletionMessageToolCall",
                "chat_completion_message_tool_call.Function",
            )
        ),
        *(f"openai.types.completion_usage.{name}" for name in ("CompletionUsage",)),
        *(
            f"anthropic.types.{name}"
            for name in (
                "message.Message",
                "text_block.TextBlock",
                "tool_use_block.ToolUseBlock",
                "usage.Usage",
            )
        ),
    }
)
"""The classes that step files may name. Arguments of an experiment may name any."""
