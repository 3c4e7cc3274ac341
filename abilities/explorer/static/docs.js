// The HTTP API as /openapi.json describes it, tried out with this tab's token if it has one.

const token = sessionStorage.getItem("abilities-token");

SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#api",
  deepLinking: true,
  validatorUrl: null, // The default validator is on another host.
  requestInterceptor: (request) => {
    if (token) request.headers.Authorization ??= `Bearer ${token}`;
    return request;
  },
});
