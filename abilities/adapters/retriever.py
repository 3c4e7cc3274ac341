"""`AbilitiesRetriever`: the results of `recall` as documents of LangChain."""

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, PrivateAttr
from typing_extensions import override

from abilities.adapters.functions import Host, Source, check_namespace
from abilities.declarations.limits import MAX_QUESTION_CHARS, MAX_RECALL_TOKENS
from abilities.declarations.refusals import Fault
from abilities.declarations.values import JsonObject
from abilities.errors import AbilityError


class AbilitiesRetriever(BaseRetriever):
    """Retrieves memories and notes, for sync and async code on any event loop.

    ``source`` is an open application, or settings (by default those of the environment) from which
    one is opened at the first call. It stays open, on one background loop, until the process ends.
    The default ``namespace`` is that of the settings; with ``require_namespace`` it must be given.
    ``filters`` are further arguments of `recall`, such as ``{"type": "core", "notes": False}``.

    A document's content is that of a memory, or of a part of a note. Its metadata is the rest of
    the full record: the key or filename, the score, the date, the type and so on. Memories that
    cannot be read are left out. Only the first 1,000 characters of a question are used.

    Creating a retriever raises ValueError if a root must not be shared or does not exist, or if a
    required namespace is missing. Retrieving raises AbilityError if nothing can be read, or if a
    filter is wrong.
    """

    source: Source = Field(default=None, exclude=True, repr=False)
    k: int = Field(default=4, ge=1, description="Maximum number of documents that are returned.")
    namespace: str | int | None = None
    require_namespace: bool = False
    filters: JsonObject = Field(default_factory=dict)

    _host: Host = PrivateAttr()

    @override
    def model_post_init(self, context: object) -> None:
        if self.require_namespace:
            check_namespace(self.namespace, "pass namespace=… to AbilitiesRetriever()")

        self._host = Host(self.source, "langchain")

    @override
    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun | None = None,
        k: int | None = None,
    ) -> list[Document]:
        return self._host.run_sync(self._retrieve(query, k or self.k))

    @override
    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun | None = None,
        k: int | None = None,
    ) -> list[Document]:
        return await self._retrieve(query, k or self.k)

    async def _retrieve(self, question: str, k: int) -> list[Document]:
        """Return the best documents, from as many calls as needed."""
        request: JsonObject | None = {
            "max_tokens": MAX_RECALL_TOKENS,
            **self.filters,
            "queries": [question[:MAX_QUESTION_CHARS]],
            "detail": "full",
        }
        documents: list[Document] = []

        while request and len(documents) < k:
            reply = await self._host.call("recall", request, self.namespace)
            if reply.failed:
                raise AbilityError(Fault.model_validate(reply.payload["error"]))

            (record,) = reply.payload["results"]
            for fields in record["data"]["memories"]:
                if "content" in fields:
                    metadata = {name: fields[name] for name in fields if name != "content"}
                    document = Document(fields["content"], id=fields.get("key"), metadata=metadata)
                    documents.append(document)

            request = reply.payload.get("next_request")

        return documents[:k]
