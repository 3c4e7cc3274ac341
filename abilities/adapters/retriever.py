"""`AbilitiesRetriever`: what `recall` finds, as documents of LangChain."""

from collections.abc import Sequence

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, PrivateAttr
from typing_extensions import override

from abilities.adapters.host import Host, Source, check_namespace
from abilities.declarations.limits import MAX_QUESTION_CHARS, MAX_RECALL_TOKENS
from abilities.declarations.refusals import Fault
from abilities.declarations.values import JsonObject
from abilities.errors import AbilityError


class AbilitiesRetriever(BaseRetriever):
    """Retrieves memories and notes for sync and async code on any event loop.

    ``source`` is an open application, or settings (by default those of the environment) from which
    one is opened at the first call; it stays open, on one background loop, until the process ends.
    Without a ``namespace`` it is that of the settings, or with ``require_namespace`` an error.
    ``filters`` are further arguments of
    `recall`, such as ``{"type": "core", "notes": False}``.

    A document's content is that of a memory or of a part of a note, and its metadata is the rest of
    the full record: the key or the filename, the score, the date, the type and so on. Memories that
    cannot be read are left out. Of a question the first 1,000 characters count.

    Creating one raises ValueError for a root that must not be shared or does not exist, and for a
    missing namespace that is required. Retrieving
    raises AbilityError if nothing can be read, or a filter is wrong.
    """

    source: Source = Field(default=None, exclude=True, repr=False)
    k: int = Field(default=4, ge=1, description="The most documents that are returned.")
    namespace: str | int | None = None
    require_namespace: bool = False
    filters: JsonObject = Field(default_factory=dict)

    _host: Host = PrivateAttr()

    @override
    def model_post_init(self, context: object) -> None:
        if self.require_namespace:
            check_namespace(self.namespace, "pass namespace=… to AbilitiesRetriever()")

        source = self.source
        self._host = Host(source, "langchain")

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
        """Return the best documents, from as many answers as they take."""
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
            documents += _build_documents(record["data"]["memories"])
            request = reply.payload.get("next_request")

        return documents[:k]


def _build_documents(records: Sequence[JsonObject]) -> list[Document]:
    documents: list[Document] = []

    for record in records:
        if "content" in record:
            metadata = {name: value for name, value in record.items() if name != "content"}
            documents.append(Document(record["content"], id=record.get("key"), metadata=metadata))

    return documents
