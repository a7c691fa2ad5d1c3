"""Files of models: written whole or not at all, found beside each other, made of models in memory."""
