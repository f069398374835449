"""Names and things that sites are filled with."""

FIRST = tuple(
    """Ada Ben Clara David Elena Felix Grace Hugo Iris Jonas Karin Leo Mara Nils Olga Paul Rosa Simon Tessa Victor
    Wanda Yusuf Zoe Anton""".split()  # noqa: SIM905
)
LAST = tuple(
    """Abel Baker Carver Dolan Ekman Foster Garcia Hansen Ivers Jansen Keller Lindt Moreno Novak Olsen Parker Quinn
    Rossi Stone Tanaka Ulrich Vogel Weber Young""".split()  # noqa: SIM905
)
COMPANIES = (
    *("Northwind Bakery", "Harbour Tools", "Green Valley Farm", "Bluebird Travel", "Castle Books", "Delta Logistics"),
    *("Evergreen Gardens", "Falcon Cycles", "Granite Works", "Hilltop Clinic", "Ivory Music", "Juniper Design"),
    *("Kestrel Energy", "Lighthouse Press", "Maple Furniture", "Nimbus Software", "Orchard Foods", "Pioneer Rail"),
)
TOPICS = (
    *("Astronomy", "Baking", "Chess", "Cycling", "Film", "Gardening", "Hiking", "History", "Jazz", "Knitting"),
    *("Maps", "Opera", "Painting", "Photography", "Pottery", "Puzzles", "Sailing", "Science", "Theatre", "Travel"),
)
BUTTONS = (
    *("Save", "Print", "Share", "Archive", "Refresh", "Export", "Import", "Publish", "Preview", "Duplicate"),
    *("Rename", "Upload", "Download", "Subscribe", "Restart", "Approve", "Reject", "Lock", "Merge", "Translate"),
)
COUNTRIES = {
    "Norland": {
        "North Coast": ("Alvik", "Berg", "Sund"),
        "South Coast": ("Berg", "Dalen", "Havn"),
        "Inland": ("Elvar",),
    },
    "Westria": {
        "Highlands": ("Carn", "Glen", "Mill"),
        "Lowlands": ("Mill", "Ford", "Lea"),
        "Islands": ("Rona", "Sund"),
    },
    "Castova": {
        "Old Province": ("Miro", "Pola", "Vesna"),
        "River Province": ("Pola", "Zelen"),
        "Hills": ("Carn", "Tora"),
    },
    "Meridia": {"East": ("Lago", "Porto", "Serra"), "West": ("Porto", "Vila", "Ribeira"), "Centre": ("Serra", "Monte")},
}
FILES = (
    *("budget", "report", "agenda", "contract", "invoice", "photo", "minutes", "offer", "poster", "roster", "survey"),
    *("timetable", "manual", "plan", "letter", "summary"),
)
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
