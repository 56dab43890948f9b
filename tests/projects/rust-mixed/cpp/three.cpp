long long three() { return 300; }
