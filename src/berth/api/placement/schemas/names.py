"""Names of resource classes and traits, in bodies and in paths."""

from berth.api.placement.schemas.building import CUSTOM_NAME, obj, text
from berth.api.placement.shapes import Shape, Steps

CLASS_NAME = Shape(obj({"name": text(255, pattern=CUSTOM_NAME)}, ("name",)))
"""Of `{"name": ...}`; for a class of the path, too."""

TRAIT_NAME = Shape(obj({"name": text(255, 1, CUSTOM_NAME)}, ("name",)))

POST_CLASS: Steps = ((2, CLASS_NAME),)
PUT_CLASS: Steps = ((2, CLASS_NAME),)
