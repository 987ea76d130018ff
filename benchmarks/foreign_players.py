"""Agents of other projects that fill in a form: `foreign_players.py NAME BROWSER PAGE`.

They do not import webtraj. `benchmarks/foreign_agents.py` starts them, with a model's address in
their environment variables.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

MODEL = "fake-model"


async def act(page: Any, name: str, arguments: dict[str, Any]) -> str:
    """Call a tool, and return the page's address."""
    match name:
        case "goto":
            await page.goto(arguments["url"])
        case "fill":
            await page.fill(f"[name={arguments['field']}]", arguments["text"])
        case "click":
            await page.click(f"text={arguments['button']}")
    return f"At {page.url}"


SCHEMA = {"type": "object", "properties": {}, "additionalProperties": True}
NAMES = ("goto", "fill", "click", "look")


async def openai_chat(page: Any, goal: str) -> None:
    """Play with OpenAI's client and chat completions, streamed."""
    import openai

    tools: Any = [
        {"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES
    ]
    messages: list[Any] = [{"role": "user", "content": goal}]
    async with openai.AsyncOpenAI() as client:
        while True:
            asked = {"model": MODEL, "messages": messages, "tools": tools}
            async with client.chat.completions.stream(**asked) as stream:
                message = (await stream.get_final_completion()).choices[0].message
            if not message.tool_calls:
                return
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls:
                told = await act(page, call.function.name, json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": told})


async def openai_responses(page: Any, goal: str) -> None:
    """Play with OpenAI's client and Responses."""
    import openai

    tools: Any = [{"type": "function", "name": name, "parameters": SCHEMA} for name in NAMES]
    items: list[Any] = [{"role": "user", "content": goal}]
    async with openai.AsyncOpenAI() as client:
        while True:
            reply = await client.responses.create(model=MODEL, input=items, tools=tools)
            items += [item.model_dump(exclude_none=True) for item in reply.output]
            calls = [item for item in reply.output if item.type == "function_call"]
            if not calls:
                return
            for call in calls:
                told = await act(page, call.name, json.loads(call.arguments))
                items.append(
                    {"type": "function_call_output", "call_id": call.call_id, "output": told}
                )


async def anthropic_messages(page: Any, goal: str) -> None:
    """Play with Anthropic's client."""
    import anthropic

    tools: Any = [{"name": name, "input_schema": SCHEMA} for name in NAMES]
    messages: list[Any] = [{"role": "user", "content": goal}]
    async with anthropic.AsyncAnthropic() as client:
        while True:
            asked = {"model": MODEL, "messages": messages, "max_tokens": 400}
            reply = await client.messages.create(**asked, tools=tools)
            used: list[Any] = [block for block in reply.content if block.type == "tool_use"]
            if not used:
                return
            results = []
            for block in used:
                told = await act(page, block.name, block.input)
                results.append({"type": "tool_result", "tool_use_id": block.id, "content": told})
            messages.append({"role": "assistant", "content": reply.content})
            messages.append({"role": "user", "content": results})


async def langchain(page: Any, goal: str) -> None:
    """Play with LangChain's agent."""
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    turn = asyncio.Lock()  # LangChain calls the tools of a reply in parallel, on one page.

    async def goto(url: str) -> str:
        """Open a URL."""
        return await act(page, "goto", {"url": url})

    async def fill(field: str, text: str) -> str:
        """Fill in a field."""
        async with turn:
            return await act(page, "fill", {"field": field, "text": text})

    async def click(button: str) -> str:
        """Click a button."""
        return await act(page, "click", {"button": button})

    async def look() -> str:
        """Look at the page."""
        return await act(page, "look", {})

    agent = create_agent(ChatOpenAI(model=MODEL), tools=[goto, fill, click, look])
    await agent.ainvoke({"messages": [("user", goal)]})


async def browser_use(browser: str, goal: str) -> None:
    """Play with browser-use."""
    from browser_use import Agent, Browser, ChatOpenAI

    llm = ChatOpenAI(model=MODEL, base_url=os.environ["OPENAI_BASE_URL"])
    session = Browser(cdp_url=browser, keep_alive=True)
    await Agent(task=goal, llm=llm, browser=session, use_judge=False).run(max_steps=6)
    await session.stop()


async def stagehand(browser: str, url: str) -> None:
    """Play with Stagehand, which connects to a browser that runs."""
    import httpx
    from stagehand import LLMStructuredGenerateResult, Stagehand, local_browser

    async def ask(request: Any) -> Any:
        asked = request.model_dump(mode="json")
        messages = [{"role": "system", "content": asked["system_prompt"] or ""}]
        messages += [
            {"role": one["role"], "content": one["content"]["text"]} for one in asked["messages"]
        ]
        async with httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"], timeout=60) as client:
            body = {"model": MODEL, "messages": messages}
            reply = (await client.post("/chat/completions", json=body)).json()
        text = reply["choices"][0]["message"]["content"]
        return LLMStructuredGenerateResult.model_validate(
            {
                "role": "assistant",
                "content": {"type": "text", "text": text},
                "output_format": "json_schema",
                "structured_content": json.loads(text),
            }
        )

    connected = await local_browser.connect(cdp_url=browser)
    agent = await Stagehand.create(browser=connected, model=ask)
    page = (await connected.context.pages())[0]
    await page.goto(url)
    for instruction in ("type Anna as the Name", "type Bern as the City", "click the button Send"):
        await agent.act(instruction)
    await agent.close()


async def main(name: str, browser: str, url: str) -> None:
    """Play."""
    goal = f"Fill in the form at {url} and send it."
    if name == "browser-use":
        await browser_use(browser, goal)
        return
    if name == "Stagehand":
        await stagehand(browser, url)
        return
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        connected = await playwright.chromium.connect_over_cdp(browser)
        play = {
            "openai, chat completions": openai_chat,
            "openai, Responses": openai_responses,
            "anthropic": anthropic_messages,
            "LangChain": langchain,
        }[name]
        await play(connected.contexts[0].pages[0], goal)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
