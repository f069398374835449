"""VehicleControlAPI: doors, engine, brakes, climate and tires of a car."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from envs.tools.bfcl.backing.backing import Backing, Integer, Names, Number, Result, Text, refuse
from envs.tools.bfcl.backing.roads import CITIES, cities_between
from envs.tools.tool import tool

DOORS = ("driver", "passenger", "rear_left", "rear_right")
TIRES = ("frontLeftTirePressure", "frontRightTirePressure", "rearLeftTirePressure", "rearRightTirePressure")
HEALTHY_PRESSURE = (32.0, 35.0)  # psi
TANK = 50.0  # gallons
MILES_PER_GALLON = 20.0
LITERS_PER_GALLON = 3.785411784
KM_PER_MILE = 1.609344
FULL_PARKING_FORCE, FULL_PEDAL_FORCE = 500.0, 1000.0  # newtons
OUTSIDE_TEMPERATURE = 18.5  # degrees Celsius
TIRE_SHOP = "456 Oakwood Avenue, Rivermist, 83214"  # the gold answers navigate there
_DEFAULTS: Mapping[str, Any] = {
    "fuelLevel": 0.0,
    "batteryVoltage": 12.6,
    "engineState": "stopped",
    "acTemperature": 25.0,
    "fanSpeed": 50,
    "acMode": "auto",
    "humidityLevel": 50.0,
    "headLightStatus": "off",
    "parkingBrakeStatus": "released",
    "brakePedalStatus": "released",
    "distanceToNextVehicle": 50.0,
    "cruiseStatus": "inactive",
    "destination": "None",
    **dict.fromkeys(TIRES, 32.0),
}


class VehicleControlAPI(Backing):
    """A car. The engine starts only with locked doors, a fully pressed brake pedal and fuel.

    The documentation does not name these conditions; the gold answers meet them. As the names in its responses say, the
    force of the brakes and the slope are no part of the state.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        values = {name: config.get(name, default) for name, default in _DEFAULTS.items()}
        self.fuelLevel: float = values["fuelLevel"]
        self.batteryVoltage: float = values["batteryVoltage"]
        self.engineState: str = values["engineState"]
        self.doorStatus: dict[str, str] = {**dict.fromkeys(DOORS, "unlocked"), **config.get("doorStatus", {})}
        self.acTemperature: float = values["acTemperature"]
        self.fanSpeed: int = values["fanSpeed"]
        self.acMode: str = values["acMode"]
        self.humidityLevel: float = values["humidityLevel"]
        self.headLightStatus: str = values["headLightStatus"]
        self.parkingBrakeStatus: str = values["parkingBrakeStatus"]
        self.brakePedalStatus: str = values["brakePedalStatus"]
        self.distanceToNextVehicle: float = values["distanceToNextVehicle"]
        self.cruiseStatus: str = values["cruiseStatus"]
        self.destination: str = values["destination"]
        self.tirePressures: dict[str, float] = {name: values[name] for name in TIRES}
        self.currentSpeed: float = config.get("currentSpeed", 0.0)
        self._parkingBrakeForce: float = config.get("parkingBrakeForce", 0.0)
        self._slopeAngle: float = config.get("slopeAngle", 0.0)
        self._brakePedalForce: float = config.get("brakePedalForce", 0.0)

    @tool
    def activateParkingBrake(self, mode: Literal["engage", "release"]) -> Result:
        """Engage or release the parking brake."""
        is_engaging = mode == "engage"
        self.parkingBrakeStatus = "engaged" if is_engaging else "released"
        self._parkingBrakeForce = FULL_PARKING_FORCE if is_engaging else 0.0
        return {
            "parkingBrakeStatus": self.parkingBrakeStatus,
            "_parkingBrakeForce": self._parkingBrakeForce,
            "_slopeAngle": self._slopeAngle,
        }

    @tool
    def adjustClimateControl(
        self,
        temperature: Number,
        unit: Literal["celsius", "fahrenheit"] = "celsius",
        fanSpeed: Integer = 50,
        mode: Literal["auto", "cool", "heat", "defrost"] = "auto",
    ) -> Result:
        """Set temperature, fan and mode of the air conditioning."""
        celsius = float(temperature) if unit == "celsius" else round((temperature - 32) / 1.8, 2)
        if not -30 <= celsius <= 50:
            return refuse("the temperature must be between -30 and 50 degrees Celsius")
        if not 0 <= fanSpeed <= 100:
            return refuse("fanSpeed must be between 0 and 100")
        self.acTemperature, self.fanSpeed, self.acMode = celsius, fanSpeed, mode
        return {"currentTemperature": celsius, "climateMode": mode, "humidityLevel": self.humidityLevel}

    @tool
    def check_tire_pressure(self) -> Result:
        """Return the pressure of the tires; it is healthy if all lie between 32 and 35 psi."""
        low, high = HEALTHY_PRESSURE
        is_healthy = all(low <= pressure <= high for pressure in self.tirePressures.values())
        return {"tirePressure": {**self.tirePressures, "healthy_tire_pressure": is_healthy, "car_info": {}}}

    @tool
    def displayCarStatus(
        self,
        option: Literal["fuel", "battery", "doors", "climate", "headlights", "parkingBrake", "brakePedal", "engine"],
    ) -> Result:
        """Show one part of the car's state."""
        status: dict[str, Any] = {
            "fuel": {"fuelLevel": self.fuelLevel},
            "battery": {"batteryVoltage": self.batteryVoltage},
            "doors": {"doorStatus": self.doorStatus},
            "climate": {
                "currentACTemperature": self.acTemperature,
                "fanSpeed": self.fanSpeed,
                "climateMode": self.acMode,
                "humidityLevel": self.humidityLevel,
            },
            "headlights": {"headlightStatus": self.headLightStatus},
            "parkingBrake": {
                "parkingBrakeStatus": self.parkingBrakeStatus,
                "parkingBrakeForce": self._parkingBrakeForce,
                "slopeAngle": self._slopeAngle,
            },
            "brakePedal": {
                "brakePedalStatus": self.brakePedalStatus,
                "brakePedalForce": self._brakePedalForce,
            },
            "engine": {"engineState": self.engineState, "metadata": ""},
        }
        return {"status": status[option]}

    @tool
    def display_log(self, messages: Names) -> Result:
        """Show messages."""
        return {"log": messages}

    @tool
    def estimate_distance(self, cityA: Text, cityB: Text) -> Result:
        """Return the distance between two zip codes in km, and the cities between them."""
        cities = {city.zipcode: city for city in CITIES}
        for zipcode in (cityA, cityB):
            if zipcode not in cities:
                return refuse(f"no city with the zip code {zipcode[:40]!r} is known")
        first, second = cities[cityA], cities[cityB]
        return {"distance": abs(first.place - second.place), "intermediaryCities": cities_between(first, second)}

    @tool
    def estimate_drive_feasibility_by_mileage(self, distance: Number) -> Result:
        """Say whether the fuel is enough for a distance in miles."""
        return {"canDrive": self.fuelLevel * MILES_PER_GALLON >= distance}

    @tool
    def fillFuelTank(self, fuelAmount: Number) -> Result:
        """Add fuel, in gallons."""
        if fuelAmount < 0:
            return refuse("the amount of fuel must not be negative")
        if self.fuelLevel + fuelAmount > TANK + 1e-9:
            return refuse(f"the tank holds {TANK:g} gallons and has {self.fuelLevel:g}")
        self.fuelLevel = round(self.fuelLevel + fuelAmount, 6)
        return {"fuelLevel": self.fuelLevel}

    @tool
    def find_nearest_tire_shop(self) -> Result:
        """Return the address of a tire shop."""
        return {"shopLocation": TIRE_SHOP}

    @tool
    def gallon_to_liter(self, gallon: Number) -> Result:
        """Convert gallons to liters."""
        return {"liter": round(gallon * LITERS_PER_GALLON, 6)}

    @tool
    def get_current_speed(self) -> Result:
        """Return the speed in km/h."""
        return {"currentSpeed": self.currentSpeed}

    @tool
    def get_outside_temperature_from_google(self) -> Result:
        """Return the temperature outside."""
        return {"outsideTemperature": OUTSIDE_TEMPERATURE}

    @tool
    def get_outside_temperature_from_weather_com(self) -> Result:
        """Return the temperature outside."""
        return {"outsideTemperature": OUTSIDE_TEMPERATURE}

    @tool
    def get_zipcode_based_on_city(self, city: Text) -> Result:
        """Look up the zip code of a city."""
        zipcodes = {each.name.lower(): each.zipcode for each in CITIES}
        zipcode = zipcodes.get(city.strip().lower())
        return {"zipcode": zipcode} if zipcode else refuse(f"no city {city[:40]!r} is known")

    @tool
    def liter_to_gallon(self, liter: Number) -> Result:
        """Convert liters to gallons."""
        return {"gallon": round(liter / LITERS_PER_GALLON, 6)}

    @tool
    def lockDoors(self, unlock: bool, door: Names) -> Result:
        """Lock or unlock doors."""
        if unknown := [name for name in door if name not in DOORS]:
            return refuse(f"door {unknown[0][:40]!r} is not one of {', '.join(DOORS)}")
        status = "unlocked" if unlock else "locked"
        self.doorStatus.update(dict.fromkeys(door, status))
        return {"lockStatus": status, "remainingUnlockedDoors": self._open_doors()}

    @tool
    def pressBrakePedal(self, pedalPosition: Number) -> Result:
        """Press the brake pedal, from 0 (not at all) to 1 (fully)."""
        if not 0 <= pedalPosition <= 1:
            return refuse("pedalPosition must be between 0 and 1")
        self.brakePedalStatus = "pressed" if pedalPosition else "released"
        self._brakePedalForce = FULL_PEDAL_FORCE * pedalPosition
        return {"brakePedalStatus": self.brakePedalStatus, "brakePedalForce": self._brakePedalForce}

    @tool
    def releaseBrakePedal(self) -> Result:
        """Release the brake pedal."""
        self.brakePedalStatus, self._brakePedalForce = "released", 0.0
        return {"brakePedalStatus": "released", "brakePedalForce": 0.0}

    @tool
    def setCruiseControl(self, speed: Number, activate: bool, distanceToNextVehicle: Number) -> Result:
        """Switch the cruise control on, at a speed from 0 to 120 miles an hour in steps of 5, or off."""
        if activate and self.engineState != "running":
            return refuse("cruise control needs a running engine")
        if activate and not (0 <= speed <= 120 and speed % 5 == 0):
            return refuse("the speed must be between 0 and 120 and a multiple of 5")
        if activate:
            self.cruiseStatus, self.currentSpeed = "active", round(speed * KM_PER_MILE, 2)
            self.distanceToNextVehicle = float(distanceToNextVehicle)
        else:
            self.cruiseStatus = "inactive"
        return {
            "cruiseStatus": self.cruiseStatus,
            "currentSpeed": self.currentSpeed,
            "distanceToNextVehicle": self.distanceToNextVehicle,
        }

    @tool
    def setHeadlights(self, mode: Literal["on", "off", "auto"]) -> Result:
        """Switch the headlights; `auto` leaves them off, as in the official system."""
        self.headLightStatus = "on" if mode == "on" else "off"
        return {"headlightStatus": self.headLightStatus}

    @tool
    def set_navigation(self, destination: Text) -> Result:
        """Navigate to an address."""
        if not destination.strip():
            return refuse("the destination is empty")
        self.destination = destination
        return {"status": f"Navigating to {destination}"}

    @tool
    def startEngine(self, ignitionMode: Literal["START", "STOP"]) -> Result:
        """Start or stop the engine."""
        if ignitionMode == "START":
            if self.fuelLevel <= 0:
                return refuse("the fuel tank is empty")
            if self._open_doors():
                return refuse(f"all doors must be locked first; {self._open_doors()} are unlocked")
            if self._brakePedalForce < FULL_PEDAL_FORCE:
                return refuse("the brake pedal must be fully pressed first")
        self.engineState = "running" if ignitionMode == "START" else "stopped"
        return {
            "engineState": self.engineState,
            "fuelLevel": self.fuelLevel,
            "batteryVoltage": self.batteryVoltage,
        }

    def _open_doors(self) -> int:
        return sum(status == "unlocked" for status in self.doorStatus.values())
