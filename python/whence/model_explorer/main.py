"""What Model Explorer imports: classes that it registers by deriving from its own."""

from .adapter import WhenceAdapter as WhenceAdapter
from .figures import WhenceFigures as WhenceFigures
