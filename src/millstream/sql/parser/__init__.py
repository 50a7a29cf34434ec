"""The parser: text to syntax trees, by recursive descent and precedence climbing."""
