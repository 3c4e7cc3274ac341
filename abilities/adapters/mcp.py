"""The MCP server, on the low-level API of the official SDK.

Each ability is a tool. An ability with a resource can also be read as JSON at the URIs of that
resource. The server has prompts too, and completes the arguments of prompts and resources.

Here is also a strict parser of its JSON-RPC 2.0 messages. Error texts of the SDK and its libraries
may quote parts of the request, so callers never get them. They get the SDK's error code with one
fixed sentence. Only an error whose data is a fault of this package is passed on unchanged.
"""

import json
from importlib.metadata import version
from typing import Any, Final, TypeGuard
from urllib.parse import unquote

import mcp_types as types
import orjson
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from abilities.application import Abilities
from abilities.declarations.refusals import FAULTS, AbilitiesError, Fault
from abilities.declarations.values import MAX_DEPTH, JsonObject, as_object, parse_document
from abilities.definition import describe_tool
from abilities.prompts import (
    Asked,
    build_instructions,
    complete,
    fill_prompt,
    list_offered,
    list_prompts,
)
from abilities.registry import AbilityRegistry, Reply

RequestId = int | str

MAX_ID = 1_024
"""Maximum length of a request's id, in characters, or in digits if it is an integer."""

# A call's arguments are nested in the params, and these in the message.
_MAX_DEPTH = MAX_DEPTH + 2
_ID_BOUND: int = 10**MAX_ID

_SENTENCES: Final = {
    types.PARSE_ERROR: (
        "Parse error: send one JSON message in UTF-8, without repeated fields or deep nesting."
    ),
    types.INVALID_REQUEST: "Invalid request: not a JSON-RPC 2.0 message that this server answers.",
    types.METHOD_NOT_FOUND: "Unknown method.",
    types.INVALID_PARAMS: "The params do not fit this method and protocol version.",
    types.INTERNAL_ERROR: "Internal error; the server's log has the details.",
    types.CONNECTION_CLOSED: "The server stopped before this request was answered.",
    types.HEADER_MISMATCH: "The MCP headers of a request must be there and agree with its body.",
    types.MISSING_REQUIRED_CLIENT_CAPABILITY: (
        "This request needs a capability that the client did not declare."
    ),
    types.UNSUPPORTED_PROTOCOL_VERSION: "This protocol version is not served here.",
}
"""Messages of the errors without a fault, by their codes."""


class InvalidMessage(AbilitiesError):
    """A text that is not a valid message. ``answer`` is the JSON to reply with."""

    def __init__(
        self, code: int, request_id: RequestId | None = None, sentence: str | None = None
    ) -> None:
        super().__init__(code)
        error = {"code": code, "message": sentence or _SENTENCES[code]}
        self.answer = format_answer(request_id, "error", error)


def parse_message(text: bytes) -> types.JSONRPCRequest | types.JSONRPCNotification | None:
    """Parse a message. An answer gives None, because this server sends no requests.

    Raises InvalidMessage for any other text. An id must be a string or an integer of at most
    `MAX_ID` characters.
    """
    try:
        value = parse_document(text, _MAX_DEPTH)
    except ValueError:
        raise InvalidMessage(types.PARSE_ERROR) from None

    if isinstance(value, list):
        sentence = "Invalid request: batches are not served; send one message at a time."
        raise InvalidMessage(types.INVALID_REQUEST, sentence=sentence)

    message = as_object(value) or {}
    request_id: object = message.get("id")
    method: object = message.get("method")
    params = as_object(message.get("params"))
    is_message = message.get("jsonrpc") == "2.0"

    if "method" in message and "id" in message and not is_id(request_id):
        sentence = (
            f"Invalid request: an id is a string or an integer of at most {MAX_ID} characters."
        )
        raise InvalidMessage(types.INVALID_REQUEST, sentence=sentence)

    if is_message and "method" not in message and ("result" in message or "error" in message):
        return None

    known_id = request_id if is_id(request_id) else None
    if not is_message or not isinstance(method, str):
        raise InvalidMessage(types.INVALID_REQUEST, known_id)

    # Absent params must stay unset, or the SDK would see null.
    fields: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        fields["params"] = params

    if known_id is None:
        return types.JSONRPCNotification(**fields)

    if message.get("params") is not None and params is None:
        sentence = "Invalid request: params must be an object."
        raise InvalidMessage(types.INVALID_REQUEST, known_id, sentence)

    return types.JSONRPCRequest(id=known_id, **fields)


def is_id(value: object) -> TypeGuard[RequestId]:
    """Return whether a value may be the id of a request."""
    if isinstance(value, str):
        return len(value) <= MAX_ID

    # In Python True is an integer, in JSON it is not.
    if isinstance(value, bool) or not isinstance(value, int):
        return False

    return abs(value) < _ID_BOUND


def format_answer(request_id: RequestId | None, kind: str, content: object) -> bytes:
    """Return an answer as JSON. Its ``kind`` is "result" or "error"."""
    # orjson does not support integers of more than 64 bits, which are allowed as ids.
    shown_id = json.dumps(request_id, ensure_ascii=False).encode()
    shown_content = orjson.dumps(content)

    return b'{"jsonrpc":"2.0","id":%b,"%b":%b}' % (shown_id, kind.encode(), shown_content)


def format_error(request_id: RequestId | None, error: JsonObject) -> bytes:
    """Return the answer to a failed request as JSON.

    An error of the SDK keeps its code and gets the fixed sentence for it. An error whose data is a
    fault is sent as it is.
    """
    data = as_object(error.get("data")) or {}
    if data.get("reason") in FAULTS:
        return format_answer(request_id, "error", error)

    code: int = error["code"]
    if code not in _SENTENCES:
        code = types.INTERNAL_ERROR

    described: JsonObject = {"code": code, "message": _SENTENCES[code]}
    # The data lists the supported versions, from which a client chooses another one.
    if code == types.UNSUPPORTED_PROTOCOL_VERSION and data:
        described["data"] = data

    return format_answer(request_id, "error", described)


_SERVER_NAME = "agent-abilities"
_JSON_TYPE = "application/json"

_Context = ServerRequestContext[Any]


def create_server(abilities: Abilities) -> Server[Any]:
    """Create an MCP server for an open application, with every protocol revision of the SDK.

    Over HTTP, the scope of each request must hold the ``abilities`` of its caller.
    """
    handlers = _Handlers(abilities)

    # The high-level API would derive schemas from functions, but these exist already.
    server: Server[Any] = Server(
        _SERVER_NAME,
        version=version(_SERVER_NAME),
        instructions=_describe_server(abilities),
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_resource_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.complete,
    )
    server.middleware.append(handlers.instruct)
    return server


class _Handlers:
    """The handlers of the server, one for each kind of request."""

    def __init__(self, abilities: Abilities) -> None:
        self._abilities = abilities.for_caller("mcp")
        self._tools: dict[str, types.Tool] = {}
        self._templates: dict[str, types.ResourceTemplate] = {}

        settings = abilities.settings
        for ability in abilities.registry:
            tool = describe_tool(
                ability,
                max_response_bytes=settings.max_response_bytes,
                structured=settings.structured,
            )
            self._tools[ability.name] = types.Tool.model_validate(tool)

            if ability.resource is not None:
                self._templates[ability.name] = types.ResourceTemplate(
                    name=ability.name,
                    title=ability.title,
                    description=ability.description,
                    uri_template=ability.resource,
                    mime_type=_JSON_TYPE,
                )

    async def list_tools(
        self, context: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """List the tools that the caller may use."""
        offered = self._get_abilities(context).offered
        return types.ListToolsResult(tools=[self._tools[ability.name] for ability in offered])

    async def call_tool(
        self, context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Call an ability. Raises MCPError: INVALID_PARAMS for an unknown tool."""
        abilities = self._get_abilities(context)
        if params.name not in abilities.registry:
            refusal = abilities.registry.explain_unknown(params.name)
            message = "Unknown tool."
            if refusal.did_you_mean is not None:
                message = f"Unknown tool; did you mean '{refusal.did_you_mean}'?"

            raise _build_error(Fault.from_refusal(refusal).to_payload(), message)

        structured = abilities.settings.structured
        reply = await abilities.reply(
            params.name, params.arguments, for_model=True, structured=structured
        )

        # By default the payload is sent once, because many clients give both forms to the model.
        has_structured = structured and not reply.failed
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=reply.text)],
            structured_content=reply.payload if has_structured else None,
            is_error=reply.failed,
        )

    async def list_resources(
        self, context: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Return an empty list: there may be millions of memories, which queries find."""
        return types.ListResourcesResult(resources=[])

    async def list_resource_templates(
        self, context: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """List the URI templates of the abilities that can be read."""
        registry = self._get_abilities(context).registry
        templates = [template for name, template in self._templates.items() if name in registry]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(
        self, context: _Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Call the ability that a URI names.

        Raises MCPError: INVALID_PARAMS if the URI is unknown or the call failed.
        """
        abilities = self._get_abilities(context)
        call = _parse_uri(params.uri, abilities.registry)
        if call is None:
            fault = Fault.from_reason("unknown_address").to_payload()
            raise _build_error({"uri": params.uri, **fault}, "Unknown resource.")

        name, arguments = call
        reply = await abilities.reply(name, arguments)
        _check_reply(reply, uri=params.uri)

        text = types.TextResourceContents(uri=params.uri, mime_type=_JSON_TYPE, text=reply.text)
        return types.ReadResourceResult(contents=[text])

    async def list_prompts(
        self, context: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """List the prompts that the caller may use."""
        prompts: list[types.Prompt] = []

        for prompt in list_prompts(self._get_abilities(context)):
            arguments = [
                types.PromptArgument(
                    name=name, description=field.description, required=field.is_required()
                )
                for name, field in prompt.input.model_fields.items()
            ]
            described = types.Prompt(
                name=prompt.name,
                title=prompt.title,
                description=prompt.description,
                arguments=arguments,
            )
            prompts.append(described)

        return types.ListPromptsResult(prompts=prompts)

    async def get_prompt(
        self, context: _Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Fill a prompt. Raises MCPError: INVALID_PARAMS for an unknown name or wrong arguments."""
        abilities = self._get_abilities(context)
        reply = await fill_prompt(abilities, params.name, params.arguments)
        _check_reply(reply)

        content = types.TextContent(type="text", text=reply.text)
        return types.GetPromptResult(
            description=reply.payload["description"],
            messages=[types.PromptMessage(role="user", content=content)],
        )

    async def complete(
        self, context: _Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """Complete an argument. Raises MCPError: INVALID_PARAMS if it is not offered."""
        argument = params.argument
        if isinstance(params.ref, types.PromptReference):
            asked = Asked("prompt", params.ref.name, argument.name, argument.value)
        else:
            asked = Asked("resource", params.ref.uri, argument.name, argument.value)

        reply = await complete(self._get_abilities(context), asked)
        _check_reply(reply)
        return types.CompleteResult(completion=types.Completion.model_validate(reply.payload))

    async def instruct(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        """Put the caller's own instructions into the result of a handshake, as a middleware.

        The SDK has one text for all callers, but instructions must not mention an ability that the
        caller is not offered.
        """
        result = await call_next(ctx)
        if isinstance(result, dict) and ctx.method in ("initialize", "server/discover"):
            result["instructions"] = _describe_server(self._get_abilities(ctx))

        return result

    def _get_abilities(self, context: _Context) -> Abilities:
        """Return the caller's application: from the scope over HTTP, or else the server's own."""
        if context.request is None:
            return self._abilities

        abilities: Abilities = context.request.scope["abilities"]
        return abilities


def _describe_server(abilities: Abilities) -> str:
    """Return the instructions for a caller's model."""
    return build_instructions(list_offered(abilities))


def _check_reply(reply: Reply, **details: str) -> None:
    """Raise MCPError, with further details, for a reply that has failed."""
    if reply.failed:
        fault = reply.payload["error"]
        raise _build_error({**details, **fault}, fault["message"])


def _build_error(data: JsonObject, message: str) -> MCPError:
    """Return the error for a request with a wrong name or URI. Its data has the fault."""
    return MCPError(code=types.INVALID_PARAMS, message=message, data=data)


def _parse_uri(uri: str, registry: AbilityRegistry) -> tuple[str, JsonObject] | None:
    """Return the name and arguments of the call at a URI, or None if no resource matches.

    For example, ``memory://two%20words`` calls the ability whose resource is
    ``memory://{key}``, with the key "two words".
    """
    for ability in registry:
        scheme, _, placeholder = (ability.resource or "").partition("{")

        if scheme and uri.startswith(scheme):
            # Bytes that are not UTF-8 become surrogates, which no argument may contain.
            value = unquote(uri.removeprefix(scheme), errors="surrogateescape")
            return ability.name, {placeholder.removesuffix("}"): value}

    return None
