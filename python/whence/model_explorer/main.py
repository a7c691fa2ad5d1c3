"""The module that Model Explorer imports: its metaclass registers the classes as they are defined."""

from .adapter import WhenceAdapter as WhenceAdapter
from .figures import WhenceFigures as WhenceFigures
