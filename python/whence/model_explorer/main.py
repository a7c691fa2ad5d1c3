"""The module that Model Explorer imports: defining the classes registers them, by Model Explorer's metaclass."""

from .adapter import WhenceAdapter as WhenceAdapter
from .figures import WhenceFigures as WhenceFigures
