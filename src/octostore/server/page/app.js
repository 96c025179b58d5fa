// The live page starts here.
