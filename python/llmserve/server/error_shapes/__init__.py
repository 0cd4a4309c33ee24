"""How errors look to the clients of OpenAI and of SIE: several folders of `apis` answer in these shapes."""
