"""An ontology of things and their attributes, compiled for this project; no two things have the same attributes."""

from __future__ import annotations

from functools import lru_cache

from envs.procedural import digest

ATTRIBUTES = {
    "animal": "is an animal",
    "mammal": "is a mammal",
    "bird": "is a bird",
    "insect": "is an insect",
    "fur": "is covered with fur, hair or wool",
    "legs": "stands on legs",
    "wings": "has wings",
    "flies": "moves through the air",
    "water": "lives in water or travels on it",
    "farm": "is kept on farms",
    "pet": "is often kept as a pet",
    "helps": "is trained to work for people",
    "grows": "is a plant or a part of one",
    "food": "is a dish or an edible part of a plant",
    "sweet": "tastes sweet",
    "metal": "is mostly of metal",
    "wood": "is mostly of wood",
    "wheels": "rolls on wheels",
    "motor": "is driven by a motor",
    "music": "is played to make music",
    "worn": "is worn on the body",
    "cuts": "is made for cutting",
    "round": "has about the shape of a ball",
    "big": "is heavier than a person",
    "small": "fits into a closed hand",
}

_SHORT_NAMES = """
dog: animal mammal fur legs pet helps | fig: grows food sweet small | car: metal wheels motor big
hen: animal bird legs wings farm | oak: grows wood big | bee: animal insect legs wings flies farm small
hat: worn | cow: animal mammal fur legs farm big | axe: metal cuts | owl: animal bird legs wings flies
pea: grows food round small | ant: animal insect legs small | cod: animal water | harp: music wood
cat: animal mammal fur legs pet | fox: animal mammal fur legs
"""
_LONGER_NAMES = """
pig: animal mammal legs farm big | horse: animal mammal fur legs farm helps big | sheep: animal mammal fur legs farm
bear: animal mammal fur legs big | mouse: animal mammal fur legs small | hamster: animal mammal fur legs pet small
rabbit: animal mammal fur legs farm pet | bat: animal mammal fur wings flies small | whale: animal mammal water big
seal: animal mammal fur water big | otter: animal mammal fur legs water | hippo: animal mammal legs water big
camel: animal mammal fur legs helps big | elephant: animal mammal legs helps big
duck: animal bird legs wings flies water farm | swan: animal bird legs wings flies water
penguin: animal bird legs wings water | ostrich: animal bird legs wings big | chick: animal bird legs wings farm small
parrot: animal bird legs wings flies pet | canary: animal bird legs wings flies pet small
sparrow: animal bird legs wings flies small | falcon: animal bird legs wings flies helps
frog: animal legs water small | crab: animal legs water | turtle: animal legs water pet | snake: animal
lizard: animal legs | crocodile: animal legs water big | goldfish: animal water pet small | herring: animal water small
shark: animal water big | wasp: animal insect legs wings flies small | spider: animal legs small | snail: animal small
rose: grows | clover: grows small | bamboo: grows wood | apple: grows food sweet round | banana: grows food sweet
grape: grows food sweet round small | carrot: grows food | bean: grows food small | onion: grows food round
bread: food | cake: food sweet | candy: food sweet small | meatball: food round small
bike: metal wheels | cart: wood wheels | wagon: wood wheels big | tractor: metal wheels motor farm big
canoe: wood water | raft: wood water big | ship: metal water motor big | surfboard: water
plane: metal wings flies wheels motor big | helicopter: metal flies motor big | drone: flies motor | kite: flies
balloon: flies round | skates: wheels worn | ring: metal worn small | crown: metal worn | clog: wood worn
wig: fur worn | watch: worn small | razor: metal cuts small | mower: metal wheels motor cuts
chainsaw: metal motor cuts
spoon: metal | key: metal small | anvil: metal big | cannonball: metal round | fridge: metal motor big | fan: motor
piano: legs wood music big | flute: metal music | whistle: metal music small | drum: music
chair: legs wood | bed: legs wood big | wardrobe: wood big | ladder: wood | pencil: wood small
ball: round | marble: round small | boulder: round big | button: small | cup:
"""


@lru_cache(maxsize=1)
def things() -> dict[str, frozenset[str]]:
    """Return each thing with its attributes: sixteen with the shortest names first, then the others shuffled."""
    first, rest = _read(_SHORT_NAMES), _read(_LONGER_NAMES)
    return first | {name: rest[name] for name in sorted(rest, key=lambda name: digest("ontology", name))}


def _read(table: str) -> dict[str, frozenset[str]]:
    entries = [entry.partition(":") for line in table.strip().splitlines() for entry in line.split(" | ")]
    return {name: frozenset(attributes.split()) for name, _, attributes in entries}
