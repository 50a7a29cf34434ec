"""Parameters and pieces of answers that several operations share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
Partition: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000)]
Offset: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]
Millis: TypeAlias = Annotated[int, Meta(ge=0, le=2**62, description="Milliseconds since 1970.")]
ShortText: TypeAlias = Annotated[str, Meta(max_length=1000)]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=500)]
