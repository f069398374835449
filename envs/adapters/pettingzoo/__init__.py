"""Games of PettingZoo as environments of messages: `pettingzoo:connect_four_v3`."""
