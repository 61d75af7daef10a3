"""An item whose text grows while people watch: begun, spoken piece by piece, completed by whoever owns it."""

from __future__ import annotations

from hermes_daemon.core.records import PutItem
from hermes_daemon.engine.emitted import Draft
from hermes_daemon.engine.feed import Feed
from hermes_protocol.events import AnyItem, ItemProgress, ItemStarted


class Growing:
    """The producer's side of an open item. `item` is what item.started said."""

    def __init__(self, feed: Feed, turn_id: str, item: AnyItem, field: str) -> None:
        self.item = item
        self.begun = False
        self.length = 0
        self._feed = feed
        self._turn_id = turn_id
        self._field = field
        self._pieces: list[str] = []
        self._backlog: list[str] = []

    @property
    def text(self) -> str:
        """Everything said so far."""
        return "".join(self._pieces)

    async def begin(self) -> None:
        """Announce the item; what is said before its commit waits behind it."""
        self.begun = True
        item_id = self.item.item_id
        await self._feed.post(
            [Draft(ItemStarted(self.item), self._turn_id, item_id)],
            [PutItem(session_id=self._feed.session_id, item=self.item)],
        )

    def say(self, text: str) -> bool:
        """Send a piece now. False when it had to be kept back: `await catch_up()` when that is possible."""
        self._pieces.append(text)
        if self._backlog:
            self._backlog.append(text)
            return False
        if not self._feed.delta(self._turn_id, self.item.item_id, self._field, text, self.length):
            self._backlog.append(text)
            return False
        self.length += len(text)
        return True

    def count(self, bytes: int) -> None:
        """Say only how many bytes there are: what is said from here on is too long to be streamed."""
        self._feed.progress(self._turn_id, self.item.item_id, ItemProgress(bytes=bytes))

    async def catch_up(self) -> None:
        """Send what was kept back because sequence numbers had run out."""
        while self._backlog:
            await self._feed.room(1)
            text = "".join(self._backlog)
            if self._feed.delta(self._turn_id, self.item.item_id, self._field, text, self.length):
                self._backlog.clear()
                self.length += len(text)
