#include "eval/word_lists.h"

namespace winnow {
namespace {

constexpr std::string_view kAdjectives[] = {
    "able",   "ample",   "ancient",  "autumn",   "bold",   "brave",  "brief",   "bright", "brisk",  "broad",
    "calm",   "careful", "cheerful", "clean",    "clear",  "clever", "cold",    "common", "crisp",  "curious",
    "dark",   "deep",    "distant",  "dry",      "dusty",  "early",  "easy",    "eager",  "empty",  "even",
    "faint",  "fair",    "famous",   "fast",     "firm",   "flat",   "fond",    "free",   "fresh",  "gentle",
    "golden", "grand",   "green",    "handy",    "hollow", "honest", "humble",  "idle",   "keen",   "kind",
    "large",  "late",    "lively",   "lonely",   "long",   "loud",   "loyal",   "lucky",  "mild",   "modest",
    "narrow", "neat",    "noble",    "northern", "odd",    "old",    "patient", "plain",  "polite", "prompt",
    "proud",  "pure",    "quick",    "quiet",    "rare",   "ready",  "rough",   "round",  "rural",  "salty",
    "serene", "sharp",   "short",    "silent",   "silver", "simple", "sleepy",  "slow",   "small",  "smooth",
    "soft",   "solid",   "southern", "steady",   "steep",  "stern",  "still",   "strong", "sturdy", "subtle",
    "sunny",  "swift",   "tall",     "tame",     "tender", "thick",  "tidy",    "tiny",   "upper",  "urban",
    "vast",   "vivid",   "warm",     "wide",     "wild",   "windy",  "wise",    "woven",  "young",
};

constexpr std::string_view kNouns[] = {
    "acorn",   "alley",    "anchor",    "apple",    "apron",   "archway",  "arrow",    "atlas",    "badge",
    "baker",   "balcony",  "banner",    "barley",   "barn",    "barrel",   "basin",    "basket",   "beacon",
    "bell",    "bench",    "berry",     "bicycle",  "blanket", "boat",     "bottle",   "boulder",  "bracelet",
    "branch",  "bread",    "bridge",    "broom",    "bucket",  "button",   "cabin",    "cable",    "candle",
    "canal",   "candy",    "canoe",     "canvas",   "captain", "carpet",   "carrot",   "castle",   "cedar",
    "cellar",  "chair",    "chapel",    "cherry",   "chimney", "circle",   "clock",    "cloud",    "coach",
    "coast",   "cottage",  "courtyard", "cradle",   "crane",   "crystal",  "cupboard", "curtain",  "daisy",
    "desert",  "diary",    "dolphin",   "donkey",   "drawer",  "dresser",  "drum",     "eagle",    "engine",
    "errand",  "evening",  "fable",     "falcon",   "farmer",  "feather",  "fence",    "ferry",    "fiddle",
    "field",   "finger",   "fisher",    "flute",    "forest",  "fountain", "fox",      "garden",   "gate",
    "ginger",  "glacier",  "glove",     "grain",    "granite", "grove",    "guitar",   "hammer",   "harbor",
    "harvest", "hat",      "hazel",     "hedge",    "helmet",  "heron",    "hill",     "holiday",  "honey",
    "hook",    "horizon",  "hotel",     "island",   "ivory",   "jacket",   "jar",      "jewel",    "journey",
    "jungle",  "kettle",   "key",       "kitchen",  "kite",    "ladder",   "lake",     "lamp",     "lantern",
    "lawn",    "leaf",     "ledger",    "lemon",    "letter",  "library",  "lily",     "linen",    "lizard",
    "lobby",   "locket",   "magnet",    "maple",    "marble",  "market",   "meadow",   "medal",    "melon",
    "mill",    "mirror",   "mitten",    "monument", "moss",    "mountain", "museum",   "napkin",   "needle",
    "nest",    "notebook", "novel",     "oak",      "oasis",   "ocean",    "olive",    "onion",    "orange",
    "orchard", "otter",    "oven",      "owl",      "paddle",  "palace",   "panda",    "parade",   "parcel",
    "park",    "pasture",  "pearl",     "pebble",   "pencil",  "pepper",   "piano",    "picnic",   "pigeon",
    "pillow",  "pilot",    "pine",      "plank",    "planet",  "plaza",    "plum",     "pocket",   "pond",
    "poppy",   "porch",    "potter",    "prairie",  "pump",    "puzzle",   "quarry",   "quilt",    "rabbit",
    "raft",    "railway",  "rainbow",   "raven",    "ribbon",  "river",    "robin",    "rocket",   "roof",
    "rope",    "rose",     "sail",      "sailor",   "satchel", "scarf",    "school",   "shed",     "shell",
    "shelf",   "shepherd", "shore",     "shovel",   "signal",  "sister",   "slope",    "spade",    "sparrow",
    "spoon",   "spring",   "square",    "stable",   "stair",   "statue",   "stone",    "stove",    "stream",
    "street",  "sugar",    "summit",    "table",    "tailor",  "teacher",  "temple",   "tent",     "thimble",
    "thread",  "ticket",   "timber",    "tower",    "trail",   "train",    "tray",     "tulip",    "tunnel",
    "turtle",  "umbrella", "valley",    "vase",     "velvet",  "verse",    "village",  "vineyard", "violin",
    "wagon",   "walnut",   "wallet",    "wharf",    "wheel",   "whistle",  "willow",   "window",   "winter",
    "wolf",    "wool",     "workshop",  "yard",     "zebra",
};

constexpr std::string_view kVerbs[] = {
    "accept",  "admire",   "agree",      "allow",    "appear",    "arrive",  "balance",   "begin",   "believe",
    "belong",  "borrow",   "build",      "carry",    "celebrate", "change",  "choose",    "climb",   "collect",
    "compare", "complete", "connect",    "consider", "copy",      "count",   "cover",     "decide",  "deliver",
    "depend",  "describe", "design",     "discover", "divide",    "draw",    "dream",     "drive",   "enjoy",
    "enter",   "explain",  "explore",    "fasten",   "finish",    "follow",  "forget",    "gather",  "govern",
    "greet",   "guard",    "guess",      "hand",     "happen",    "hurry",   "imagine",   "improve", "include",
    "invite",  "join",     "jump",       "laugh",    "learn",     "lend",    "listen",    "lower",   "manage",
    "measure", "mention",  "move",       "notice",   "obey",      "observe", "occur",     "offer",   "open",
    "order",   "paint",    "pass",       "permit",   "plant",     "play",    "polish",    "pour",    "praise",
    "prefer",  "prepare",  "promise",    "protect",  "prove",     "publish", "pull",      "push",    "reach",
    "read",    "receive",  "recover",    "refuse",   "relax",     "remain",  "remember",  "repair",  "repeat",
    "reply",   "rescue",   "return",     "reveal",   "ring",      "roll",    "run",       "search",  "select",
    "send",    "serve",    "settle",     "share",    "shine",     "sing",    "skate",     "sketch",  "sleep",
    "solve",   "speak",    "spend",      "spread",   "start",     "stay",    "stitch",    "study",   "suggest",
    "supply",  "support",  "swim",       "teach",    "think",     "throw",   "translate", "travel",  "trust",
    "try",     "turn",     "understand", "unlock",   "visit",     "wait",    "wander",    "wash",    "watch",
    "wave",    "weave",    "welcome",    "whisper",  "wonder",    "work",    "write",
};

}  // namespace

std::span<const std::string_view> Adjectives() {
  return kAdjectives;
}

std::span<const std::string_view> Nouns() {
  return kNouns;
}

std::span<const std::string_view> Verbs() {
  return kVerbs;
}

}  // namespace winnow
