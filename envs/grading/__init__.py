"""Pure graders: a reply and the right answer in, a verdict out."""
